"""Sections of a page on a run's data and on its models' answers."""

import dataclasses
from collections.abc import Sequence

from kdkit.reporting.formatting import (
    metric_format,
    portable_path,
    words,
)
from kdkit.reporting.plots import plot_scores
from kdkit.reporting.records import RunRecords
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.predictions import Difference, Predictions

# Settings of the data that describe how it is read, not what it is.
_NOT_DATA = ("kind", "num_buckets", "dev_split", "task", "max_train_rows")
_FEW = 6  # classes whose names fit next to each other


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A confusion matrix of one model."""

    title: str
    kind: str
    classes: tuple[str, ...]
    rows: tuple
    unit: str
    is_large: bool


def data_facts(records: RunRecords) -> list[tuple[str, str]]:
    """Returns what a run's data is, as (label, text)."""
    where = "corpus" if records.is_on_text else "data"
    data = getattr(records.config, where).model_dump(mode="json")
    scored = data.get("scored") or {}  # what an embedder is measured on
    table = (scored or data).get("table") or {}  # the user's own
    values = {**scored, **data, **table}
    found = [("Task", records.task)]
    found += [
        (_label(name), _in_words(value))
        for name, value in values.items()
        if name not in _NOT_DATA
        and not isinstance(value, dict)
        and value not in (None, "", [], False)
    ]
    answers = _first(records)
    if answers is not None:
        if answers.train_examples is not None:
            found.append(("Training examples", f"{answers.train_examples:,}"))
        found.append((f"Examples in {answers.split}", f"{answers.examples:,}"))
        if answers.chance:
            found.append(("Chance level", chance_in_words(answers)))
    return [(label, text) for label, text in found if text]


def chance_in_words(answers: Predictions) -> str:
    """Returns the metrics of the best constant answer, and that answer."""
    values = ", ".join(
        f"{metric_format(name).text(value)} {metric_format(name).title}"
        for name, value in answers.chance.items()
    )
    return f"{values} ({answers.constant})" if answers.constant else values


def chance_level(records: RunRecords, metric: str) -> float | None:
    """Returns a metric of the best constant answer, `None` if not measured."""
    answers = _first(records)
    return None if answers is None else (answers.chance or {}).get(metric)


def errors(
    records: RunRecords,
    name: str = "",
    arms: Sequence[str] = ("student", "teacher"),
) -> dict:
    """Returns the section on right and wrong answers of student and teacher."""
    shown = [pair for pair in _by_arm(records) if pair[0] in arms]
    found = {
        "matrices": _matrices(records, shown, name),
        "confused": _confused_tables(records, shown, name),
        "scores": _score_pictures(records, shown, name),
    }
    reason = "" if any(found.values()) else _no_errors_reason(records)
    return {
        **found,
        "reason": f"{name}: {reason}" if name and reason else reason,
    }


def _matrices(records, shown, name):
    found = []
    for arm, answers in shown:
        if answers.confusion is None:
            continue
        rows = tuple(
            (label, tuple((count, count / max(sum(row), 1)) for count in row))
            for label, row in zip(
                answers.classes, answers.confusion, strict=True
            )
        )
        found.append(
            Matrix(
                _titled(name, records.called(arm)),
                arm,
                answers.classes,
                rows,
                answers.unit or "examples",
                len(rows) > _FEW,
            )
        )
    return found


def _confused_tables(records, shown, name):
    answer = Column("answer", is_text=True)
    return [
        Table(
            f"{_titled(name, records.called(arm))}: label",
            (answer, Column("count", answers.unit or "")),
            tuple(
                Row(one.label, (one.answer, f"{one.count:,}"), kind=arm)
                for one in answers.confused
            ),
        )
        for arm, answers in shown
        if answers.confused
    ]


def _score_pictures(records, shown, name):
    """SVG text by title: each model's scores against the labels."""
    return {
        f"{_titled(name, records.called(arm))}, score against label": (
            plot_scores(arm, _titled(name, records.called(arm)), answers.scores)
        )
        for arm, answers in shown
        if answers.scores
    }


def _titled(name, called):
    return f"{name}, {called}" if name else called.capitalize()


def _no_errors_reason(records):
    answers = _first(records)
    if records.is_on_text:
        return "Not measured: a run on text has no labels."
    if answers is None:
        return "Not measured: the run has not finished."
    return answers.reason or ""


def differences(records: RunRecords) -> Sequence[Difference] | None:
    """Returns examples where student and teacher differ, as recorded."""
    answers = records.predictions.get("student")
    return None if answers is None else answers.differences


def differing_in_words(records: RunRecords) -> str:
    """Returns how many examples student and teacher answer differently."""
    answers = records.predictions.get("student")
    if answers is None:
        return _no_errors_reason(records)
    if answers.differences is None:
        return "Listed only for classes and scores of a text or a pair."
    shown = len(answers.differences)
    if not shown:
        return (
            f"Student and teacher agree on all {answers.examples:,} examples."
        )
    if answers.differing is None:
        return f"Below are the {shown} examples with the largest differences."
    share = 100 * answers.differing / max(answers.examples, 1)
    text = (
        f"Student and teacher differ on {answers.differing:,} of "
        f"{answers.examples:,} examples ({share:.1f} %)."
    )
    if shown < answers.differing:
        text += f" Below are the {shown} where both are most confident."
    return text


def _by_arm(records):
    """The student's answers before the teacher's; a teacher's run has one."""
    return [
        (arm, records.predictions[arm])
        for arm in ("student", "teacher")
        if arm in records.predictions
    ]


def _first(records):
    return next((answers for _, answers in _by_arm(records)), None)


def _label(name):
    return "Folder" if name == "data_dir" else words(name).capitalize()


def _in_words(value):
    if value is True:
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    return portable_path(value) if isinstance(value, str) else str(value)
