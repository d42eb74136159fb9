"""The answers of a run's models on dev, summarised for its report.

`RUN/predictions.jsonl` has a line for the teacher and one for the student.
`run` writes it when the student is trained; `kdkit report` only reads it. It is
not in `metrics.jsonl`, because it has texts of the data.
"""

import dataclasses
import json
import pathlib

from kdkit.io.files import with_own_digest, write_text
from kdkit.io.reading import json_lines

PREDICTIONS_FILE = "predictions.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confused:
    """One kind of error."""

    label: str
    answer: str
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """An example where student and teacher differ."""

    text: tuple[str, ...]
    label: str
    student: str
    teacher: str
    student_share: float | None = None
    teacher_share: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions:
    """The answers of an arm's final model on dev."""

    arm: str
    examples: int
    chance: dict[str, float] | None = None
    constant: str | None = None
    classes: tuple[str, ...] | None = None
    confusion: list[list[int]] | None = None
    unit: str | None = None
    confused: tuple[Confused, ...] | None = None
    scores: list[list[float]] | None = None
    reason: str | None = None
    differing: int | None = None
    differences: tuple[Difference, ...] | None = None


def write_predictions(run_dir: pathlib.Path, found: list[Predictions]) -> None:
    """Writes `predictions.jsonl`; an older file is replaced."""
    lines = (with_own_digest(dataclasses.asdict(one)) for one in found)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    write_text(run_dir / PREDICTIONS_FILE, text)


def read_predictions(run_dir: pathlib.Path) -> tuple[dict, tuple[str, ...]]:
    """Returns the answers by arm, and a remark if a line is damaged."""
    path = run_dir / PREDICTIONS_FILE
    if not path.is_file():
        return {}, ()
    found, remarks = {}, []
    for number, line in json_lines(path):
        if line is None:
            remarks.append(
                f"Line {number} of {path.name} is damaged and was ignored."
            )
            continue
        for name, kind in (("confused", Confused), ("differences", Difference)):
            if line.get(name) is not None:
                line[name] = tuple(kind(**one) for one in line[name])
        found[line["arm"]] = Predictions(**line)
    return found, tuple(remarks[:1])
