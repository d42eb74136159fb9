"""The answers of a run's models on dev, summarised for its report.

`RUN/predictions.jsonl` has a line for the teacher and one for the student. The
runner writes it when the student is trained; `kdkit report` only reads it. It
is not in `metrics.jsonl`, because it has texts of the data.
"""

import dataclasses
import json
import pathlib

from kdkit.errors import UsageError
from kdkit.io.files import with_own_digest, write_text
from kdkit.io.reading import json_lines
from kdkit.runs.event_fields import Fields, read_fields

PREDICTIONS_FILE = "predictions.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confused(Fields):
    """One kind of error."""

    label: str
    answer: str
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference(Fields):
    """An example where student and teacher differ."""

    text: tuple[str, ...]
    label: str
    student: str
    teacher: str
    student_share: float | None = None
    teacher_share: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions(Fields):
    """The answers of an arm's final model on dev."""

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


def write_predictions(run_dir: pathlib.Path, found: list[Predictions]) -> None:
    """Writes `predictions.jsonl`; an older file is replaced."""
    text = "".join(
        f"{json.dumps(with_own_digest(one.to_dict()))}\n" for one in found
    )
    write_text(run_dir / PREDICTIONS_FILE, text)


def read_predictions(run_dir: pathlib.Path) -> tuple[dict, tuple[str, ...]]:
    """Reads `predictions.jsonl`."""
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
