"""The answers of a run's models on dev, summarised for its report.

`RUN/predictions.jsonl` has a line for the teacher and one for the student. The
runner writes it when the student is trained; `kdkit report` only reads it. It
is not in `metrics.jsonl`, because it has texts of the data.
"""

import dataclasses
import json
import pathlib

from kdkit.errors import UsageError
from kdkit.io.files import with_own_digest
from kdkit.io.files import write_text
from kdkit.io.reading import json_lines
from kdkit.runs.event_fields import Fields
from kdkit.runs.event_fields import read_fields

PREDICTIONS_FILE = "predictions.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confused(Fields):
    """One kind of error.

    Args:
        label: string. The class of the examples.
        answer: string. The class that the model predicts.
        count: int. The number of these examples.
    """

    label: str
    answer: str
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference(Fields):
    """An example where student and teacher differ.

    Args:
        text: tuple of one or two strings.
        label: string. The example's class or score.
        student: string. The student's answer.
        teacher: string. The teacher's answer.
        student_share: float. The probability that the student gives its
            answer. `None` for scores.
        teacher_share: float. The same for the teacher.
    """

    text: tuple[str, ...]
    label: str
    student: str
    teacher: str
    student_share: float | None = None
    teacher_share: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions(Fields):
    """The answers of an arm's final model on dev.

    Args:
        arm: string. `"teacher"` or `"student"`.
        split: string.
        examples: int. The examples of the split.
        train_examples: int. The labelled examples that the run trained on.
        chance: dict from metric to its value for the best constant answer.
        constant: string. That answer, in words.
        classes: tuple of strings, the classes in the order of `confusion`.
        confusion: tuple of tuples of ints. A row for each label, a column for
            each answer. `None` for many classes and for other kinds of tasks.
        unit: string. What `confusion` counts, such as `"examples"`.
        confused: tuple of `Confused`, the most frequent errors.
        scores: tuple of tuples of two floats, a label and the model's score.
        reason: string. Why there is none of the three.
        differing: int. The examples where student and teacher differ, on the
            student's line.
        differences: tuple of `Difference`, some of these examples.
    """

    arm: str
    split: str
    examples: int
    train_examples: int | None = None
    chance: dict[str, float] | None = None
    constant: str | None = None
    classes: tuple[str, ...] | None = None
    confusion: tuple[tuple[int, ...], ...] | None = None
    unit: str | None = None
    confused: tuple[Confused, ...] | None = None
    scores: tuple[tuple[float, ...], ...] | None = None
    reason: str | None = None
    differing: int | None = None
    differences: tuple[Difference, ...] | None = None

    def __post_init__(self):
        size = len(self.classes or ())
        rows = self.confusion
        widths = None if rows is None else [len(row) for row in rows]
        if rows is not None and (not size or widths != [size] * size):
            raise UsageError(
                f"Expected a confusion matrix of {size} × {size} counts, for "
                f"the classes. Got rows of {widths}. Pass "
                "a row and a column for each class."
            )
        if any(len(pair) != 2 for pair in self.scores or ()):
            raise UsageError(
                "Expected pairs of a label and a score. Got other numbers of "
                "values. Pass two values each."
            )


def write_predictions(run_dir: pathlib.Path, found: list[Predictions]) -> None:
    """Writes `predictions.jsonl`; an older file is replaced.

    Args:
        run_dir: `pathlib.Path` of a run directory.
        found: list of `Predictions`.
    """
    text = "".join(
        f"{json.dumps(with_own_digest(one.to_dict()))}\n" for one in found
    )
    write_text(run_dir / PREDICTIONS_FILE, text)


def read_predictions(run_dir: pathlib.Path) -> tuple[dict, tuple[str, ...]]:
    """Reads `predictions.jsonl`.

    Args:
        run_dir: `pathlib.Path` of a run directory.

    Returns:
        Tuple of a dict from arm to `Predictions`, empty if there is no such
        file, and of remarks on damaged lines, which are left out.
    """
    path = run_dir / PREDICTIONS_FILE
    if not path.is_file():
        return {}, ()
    found, remarks = {}, []
    for number, line in json_lines(path):
        try:
            one = Predictions(**read_fields(Predictions, line or {}))
        except UsageError:
            remarks.append(
                f"Line {number} of {path.name} is damaged and was ignored."
            )
        else:
            found[one.arm] = one
    return found, tuple(remarks[:1])
