"""What size and speed cost in accuracy: LightPAFF's table 10, as a picture."""

import dataclasses
import pathlib
import statistics
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import RUN_COLORS
from kdkit.reporting.canvas import beside
from kdkit.reporting.comparison import run_name
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.names_apart import names_apart
from kdkit.reporting.names_apart import without_seed
from kdkit.reporting.point_plot import Point
from kdkit.reporting.point_plot import plot_points
from kdkit.reporting.records import OWN_TEACHER
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description
from kdkit.reporting.selection import most_timed
from kdkit.reporting.summary import task_name
from kdkit.reporting.tables import metric_names
from kdkit.reporting.uncertainty import metric_values


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model of several seeds: what it does and what it costs."""

    name: str
    value: float
    millions: float | None
    latencies: dict  # from setting to (milliseconds, precision), the fastest
    color: str


def plot_trade_off(groups: Sequence[Sequence[RunRecords]]) -> str:
    """Draws the main metric on dev against parameters and against latency.

    One point for each group's student, the mean of its seeds, and one for each
    of their teachers. Latency is that of a model's fastest file, in the setting
    in which most models were timed; where no two were, the picture has
    parameters alone.

    Args:
        groups: sequence of groups of runs that differ only in their seed, as
            `kdkit.reporting.group_by_seed` makes them, on one task.

    Returns:
        SVG text.

    Raises:
        UsageError: (a `ValueError`) if tasks differ, nothing was evaluated or
            no size or latency is known.
    """
    groups = [
        group
        for group in groups
        if group[0].config.get("verb") == "distill"
        and metric_names(group[0])
        and metric_values(group, "student")
    ]
    tasks = sorted({task_name(group[0]) for group in groups})
    if len(tasks) != 1:
        raise UsageError(
            "A trade-off is between runs of kdkit distill on one task, with an "
            f"epoch behind them. Received: tasks {tasks}."
        )
    metric = metric_names(groups[0][0])[0]
    shown = metric_format(metric)
    scale = 100 if shown.unit == "%" else 1
    models = _models(groups)
    pictures = []
    sized = [model for model in models if model.millions]
    if sized:
        points = [
            Point(model.name, model.millions, scale * model.value, model.color)
            for model in sized
        ]
        pictures.append(
            plot_points(
                points,
                "trade-off parameters",
                f"{shown.heading(' on dev')} against size",
                "million parameters",
            )
        )
    timed = [setting for model in models for setting in model.latencies]
    setting = most_timed(timed, least=2)
    if setting is not None:
        points = [
            Point(
                f"{model.name} {model.latencies[setting][1]}",
                model.latencies[setting][0],
                scale * model.value,
                model.color,
            )
            for model in models
            if setting in model.latencies
        ]
        pictures.append(
            plot_points(
                points,
                "trade-off latency",
                f"{shown.heading(' on dev')} against latency",
                f"ms, {setting}",
            )
        )
    if not pictures:
        raise UsageError(
            "A trade-off is against parameters, or the latency of several "
            "models. Received: runs whose logs have neither. Time their "
            "files: kdkit benchmark."
        )
    return beside(pictures)


def _models(groups):
    """The students, and each teacher once."""
    models, places = [], []
    for runs in _by_teacher(groups):
        places.append(_teacher_place(runs[0]))
        name = _teacher_name(runs[0])
        models.append(_model(runs, "teacher", name, COLORS["teacher"]))
    for number, group in enumerate(groups):
        places.append(group[0].run_dir.resolve())
        color = RUN_COLORS[number % len(RUN_COLORS)]
        models.append(_model(group, "student", run_name(group[0]), color))
    names = names_apart([model.name for model in models], places)
    return [
        dataclasses.replace(model, name=name)
        for model, name in zip(models, names, strict=True)
    ]


def _by_teacher(groups):
    """Runs by their teacher, whose seeds are one; without those of none."""
    found = []
    for group in groups:
        if not metric_values(group, "teacher"):
            continue
        places = {without_seed(_teacher_place(run)) for run in group}
        runs = list(group)
        for entry in [entry for entry in found if entry[0] & places]:
            found.remove(entry)
            places, runs = entry[0] | places, entry[1] + runs
        found.append((places, runs))
    return [runs for _, runs in found]


def _teacher_place(run):
    teacher = run.config.get("teacher")
    if run.teacher_run is not None:
        return run.teacher_run.run_dir.resolve()
    if isinstance(teacher, str) and teacher:
        return pathlib.PurePath(teacher)
    return run.run_dir.resolve() / OWN_TEACHER


def _teacher_name(run):
    if run.teacher_run is not None:
        return run_name(run.teacher_run)
    place = _teacher_place(run)
    return "teacher" if place.name == OWN_TEACHER else place.name


def _model(group, arm, name, color):
    count = model_description(group[0], arm).get("parameters")
    latencies = {}
    for file in exported_files(group[0], arm):
        for setting, latency in file.latencies.items():
            found = (latency.median_ms, file.precision)
            latencies[setting] = min(latencies.get(setting, found), found)
    return _Model(
        name,
        statistics.fmean(metric_values(group, arm)),
        None if count is None else count / 1e6,
        latencies,
        color,
    )
