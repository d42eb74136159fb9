"""A page that shows runs next to each other."""

import os
import pathlib
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.reporting.answers import errors
from kdkit.reporting.comparison import (
    WITHIN_NOISE,
    comparison_table,
    is_noise,
    metric_names,
)
from kdkit.reporting.formatting import (
    DOES_NOT_APPLY,
    NOT_RUN,
    metric_format,
    portable_path,
)
from kdkit.reporting.html import render_page
from kdkit.reporting.notes import provenance
from kdkit.reporting.page import legend
from kdkit.reporting.plots import plot_learning_curves
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.summary import run_title
from kdkit.reporting.tables import Column, Row, Table
from kdkit.reporting.trade_off import names_apart, trade_off_pictures
from kdkit.settings import differing_fields

_FEW_ENTRIES = 6  # of a setting with several, which are listed


def write_comparison(
    runs: Sequence[RunRecords], path: str | os.PathLike
) -> pathlib.Path:
    """Writes one HTML page with several runs next to each other.

    Args:
        runs: sequence of at least two `RunRecords`, see `read_run`.
        path: string or path of the page. A page that exists is replaced.

    Returns:
        The path.

    Raises:
        UsageError: If there are fewer than two runs.
    """
    path = pathlib.Path(path)
    write_text(path, render_comparison(runs))
    return path


def render_comparison(runs: Sequence[RunRecords]) -> str:
    """Returns the text of a page with several runs next to each other.

    The page has the runs' models in one table and one picture, the settings
    that differ from those of the first run, and the errors of each run's
    models.

    Args:
        runs: sequence of at least two `RunRecords`.

    Returns:
        A whole HTML document that loads nothing from elsewhere.

    Raises:
        UsageError: If there are fewer than two runs.
    """
    if len(runs) < 2:
        raise UsageError(
            "A comparison needs at least two runs. "
            f"Received: {len(runs)}. Pass more run directories."
        )
    labels = [run.label for run in runs]
    places = [run.run_dir.resolve() for run in runs]
    named = dict(zip(names_apart(labels, places), runs, strict=True))
    models = _models_table(named)
    return render_page(
        "comparison.html.jinja",
        title=" and ".join(named) if len(named) < 4 else f"{len(named)} runs",
        about=list(dict.fromkeys(map(run_title, runs))),
        verdicts=_verdicts(named),
        outcome=_pictures(
            trade_off_pictures,
            [[run] for run in runs],
            "Better is up and left.",
        ),
        curves=_pictures(
            lambda runs: [plot_learning_curves(runs)], runs, "Better is up."
        ),
        models=models,
        notes=[legend(models)],
        settings=_settings_table(named),
        answers=_errors(named),
        commands="\n".join(provenance(runs).commands),
    )


def _pictures(draw, runs, caption):
    """The pictures that a function draws, none if it cannot draw these runs."""
    try:
        found = draw(runs)
    except UsageError:
        return []
    return [
        {"svg": svg, "alt": "Metric of the runs", "caption": caption}
        for svg in found
    ]


def _verdicts(named):
    """The difference of each run's model from that of the first, in words."""
    (first, reference), *others = named.items()
    return [
        text
        for name, run in others
        if (text := _verdict(name, run, first, reference))
    ]


def _verdict(name, run, first, reference):
    metric = next(iter(metric_names(reference)), None)
    found = [best_evaluation(one, one.trained_arm) for one in (run, reference)]
    if run.task != reference.task:
        return f"{name} and {first} are on different tasks."
    if metric is None or any(
        one is None or metric not in one.metrics for one in found
    ):
        return f"{name} and {first} have no evaluation to compare."
    value, other = (one.metrics[metric] for one in found)
    shown = metric_format(metric)
    text = (
        f"{name} reaches {shown.text(value)} {shown.title}, "
        f"{first} {shown.text(other)}"
    )
    distance = value - other
    if shown.number(abs(distance)) == shown.number(0.0):
        return f"{text}: no difference."
    points = " points" if shown.unit else ""
    less = "less" if distance < 0 else "more"
    text = f"{text}: {shown.number(abs(distance))}{points} {less}"
    if is_noise(metric, [value], [other], found[0].examples):
        text += f", {WITHIN_NOISE}, so no difference is shown"
    return f"{text}."


def _models_table(named):
    """The models and files of all runs that have numbers, in one table."""
    places = [_teacher_place(run) for run in named.values()]
    columns, rows = {}, {}
    for (name, run), place in zip(named.items(), places, strict=True):
        table = comparison_table([run])
        titles = [column.title for column in table.columns]
        columns.update(zip(titles, table.columns, strict=True))
        for row in table.rows:
            if row.cells[0] == NOT_RUN:
                continue
            is_shared = row.kind == "teacher" and places.count(place) > 1
            head = row.parent or row.name
            key = (place if is_shared else name, head, row.name)
            owner = head if is_shared else f"{name}, {head}"
            cells = dict(zip(titles, row.cells, strict=True))
            rows.setdefault(key, (owner, row, cells))
    return Table(
        "model",
        tuple(columns.values()),
        tuple(
            Row(
                row.name if row.parent else owner,
                tuple(cells.get(title, DOES_NOT_APPLY) for title in columns),
                parent=owner if row.parent else "",
                kind=row.kind,
                note=row.note,
            )
            for owner, row, cells in rows.values()
        ),
    )


def _errors(named):
    """Each run's errors; those of a teacher of several runs once."""
    found, places = [], set()
    for name, run in named.items():
        place = _teacher_place(run)
        arms = ("student",) if place in places else ("student", "teacher")
        found.append(errors(run, name, arms))
        places.add(place)
    return found


def _teacher_place(run):
    """The directory of a run's teacher, or of its own one."""
    teacher = run.config.get("teacher")
    if run.teacher_run is not None:
        return run.teacher_run.run_dir.resolve()
    return teacher if isinstance(teacher, str) else run.run_dir.resolve()


def _settings_table(named):
    """The settings in which a run differs from the first."""
    configs = [
        {key: run.config[key] for key in run.config if key != "provenance"}
        for run in named.values()
    ]
    first, *others = configs
    fields = {}
    for number, other in enumerate(others, 1):
        for field, (was, is_now) in differing_fields(first, other).items():
            cells = fields.setdefault(field, [was] * len(configs))
            cells[number] = is_now
    return Table(
        "setting",
        tuple(Column(name, is_text=True) for name in named),
        tuple(
            Row(field, tuple(map(_setting_text, cells)))
            for field, cells in fields.items()
        ),
    )


def _setting_text(value):
    """A setting as a reader writes it; of a whole object only its size."""
    if value.startswith("("):
        count = value.count(",") + 1
        return value if count <= _FEW_ENTRIES else f"{count} settings"
    if value == "null":
        return "not set"
    return portable_path(value.removeprefix('"').removesuffix('"'))
