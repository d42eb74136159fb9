"""Plots of a metric against latency and size, one point per model."""

import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Sequence

from kdkit.reporting.comparison import metric_names, metric_values
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.plots import (
    COLORS,
    draw,
    legend_name,
    logarithmic,
    metric_scale,
    require_one_task,
    value_axis,
)
from kdkit.reporting.records import SEED, RunRecords
from kdkit.reporting.selection import (
    Setting,
    exported_files,
    model_description,
    most_timed,
)
from kdkit.runs.events import ARMS

_MARKER_OF = {
    "fp32": "o", "fp16": "s", "int8": "D",
    "static_int8": "^", "int16x8": "P", "int4": "v",
}  # fmt: skip
_MARKERS = "osD^vPX"
_NUM_COLORS = 6  # in style.mplstyle
_APART = 0.1  # of an axis: points that are nearer share the text of one


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model of several seeds: its metric, its size and its latencies."""

    name: str
    value: float
    millions: float | None
    latencies: dict  # from setting to the milliseconds of each precision

    def fastest_first(self, setting):
        """Pairs of milliseconds and precision in a setting."""
        timed = self.latencies.get(setting, {})
        return sorted((found, precision) for precision, found in timed.items())


@dataclasses.dataclass(frozen=True)
class _Point:
    """A point of a picture. Hollow ones repeat the value of a full one."""

    name: str
    cost: float
    value: float
    color: str
    marker: str
    is_hollow: bool = False


def outcome_pictures(
    records: RunRecords, chance: float | None = None
) -> dict[str, str]:
    """Draws what a run has won and what it costs, a point for each model.

    The main metric against the latency and against the size of exported files
    that were evaluated; against parameters if there are no such files. The
    control, which is not exported, has the cost of the student's fp32 file.

    Args:
        records: `RunRecords`. Latencies are those of the setting of
            `latency_setting`.
        chance: optional float. The metric of the best constant answer, drawn
            as a line. Defaults to `None`, no line.

    Returns:
        A dict from the quantity, such as `"latency"`, to SVG text; empty if
        nothing was evaluated.
    """
    metric = next(iter(metric_names(records)), None)
    if metric is None:
        return {}
    setting = latency_setting(records)
    files = _measured_files(records, metric)
    costs = {
        "latency": (
            "median latency, ms",
            [
                (file, file.latencies[setting].median_ms)
                for file in files
                if setting in file.latencies
            ],
        ),
        "size": ("MB", [(file, file.size_bytes / 1e6) for file in files]),
    }
    points = {
        cost: (unit, _file_points(records, metric, found))
        for cost, (unit, found) in costs.items()
        if len(found) > 1
    }
    if not points:
        points["parameters"] = ("million parameters", _keras_points(records))
    title = metric_format(metric).heading()
    return {
        cost: draw(
            f"{title} against {cost}",
            functools.partial(
                _points, points=found, metric=metric, label=unit, chance=chance
            ),
        )
        for cost, (unit, found) in points.items()
        if found
    }


def _measured_files(records, metric):
    """The LiteRT files with a metric, or all files if none is LiteRT."""
    files = [
        file
        for arm in ARMS
        for file in exported_files(records, arm)
        if metric in file.metrics
    ]
    return [file for file in files if file.format == "litert"] or files


def _file_points(records, metric, measured):
    points = [
        _Point(
            _label(file),
            cost,
            file.metrics[metric],
            COLORS[file.arm],
            _MARKER_OF.get(file.precision, "^"),
        )
        for file, cost in measured
    ]
    return points + _control(records, measured)


def _control(records, measured):
    """The control at the cost of the student's fp32 file, if it has none."""
    value = _value(records, "control")
    if value is None or any(file.arm == "control" for file, _ in measured):
        return []
    return [
        _Point(
            "control",
            cost,
            value,
            COLORS["control"],
            "o",
        )
        for file, cost in measured
        if (file.arm, file.precision) == ("student", "fp32")
    ][:1]


def _keras_points(records):
    """The Keras models by their parameters."""
    return [
        _Point(
            records.called(arm),
            model_description(records, arm).parameters / 1e6,
            _value(records, arm),
            COLORS[arm],
            "o",
        )
        for arm in records.arms
        if model_description(records, arm).parameters
        and _value(records, arm) is not None
    ]


def _value(records, arm):
    """The main metric of an arm's Keras model, `None` if not evaluated."""
    return next(iter(metric_values([records], arm)), None)


def _label(file):
    """The arm and the precision, and the format if it is not LiteRT."""
    format = "" if file.format == "litert" else f"{file.title} "
    return f"{file.arm} {format}{file.precision}"


def latency_setting(records: RunRecords) -> Setting | None:
    """Returns the setting in which most files were timed, or `None`."""
    return most_timed(
        setting
        for arm in ARMS
        for file in exported_files(records, arm)
        if file.metrics
        for setting in file.latencies
    )


def plot_trade_off(groups: Sequence[Sequence[RunRecords]]) -> str:
    """Draws the main metric on dev against parameters and against latency.

    One point for each group's student, the mean of its seeds, and one for each
    of their teachers. Latencies are those of the setting in which most models
    were timed; where no two were, the picture has parameters alone. A model has
    a full point for its fastest file and a hollow one for the fastest file of
    each other precision, all at the value of the Keras model. If several runs
    timed them, the smallest latency counts. LightPAFF's table 10, as a picture.

    Args:
        groups: sequence of groups of runs that differ only in their seed, as
            `kdkit.reporting.group_by_seed` makes them, on one task.

    Returns:
        SVG text.

    Raises:
        UsageError: (a `ValueError`) if tasks differ.
    """
    titles, costs, metric = _trade_off(groups)

    def paint(*panels):
        for axes, (points, label), title in zip(
            panels, costs, titles, strict=True
        ):
            axes.set_title(title)
            _points(axes, points, metric, label)

    return draw("", paint, columns=len(costs))


def trade_off_pictures(groups: Sequence[Sequence[RunRecords]]) -> list[str]:
    """Returns the panels of `plot_trade_off`, each a picture."""
    titles, costs, metric = _trade_off(groups)
    return [
        draw(
            title,
            functools.partial(
                _points, points=points, metric=metric, label=label
            ),
        )
        for title, (points, label) in zip(titles, costs, strict=True)
    ]


def _trade_off(groups):
    """Titles, pairs of points and axis label, and the metric of groups."""
    groups = [
        group
        for group in groups
        if group[0].is_distillation
        and metric_names(group[0])
        and metric_values(group, "student")
    ]
    require_one_task([group[0] for group in groups])
    if not groups:
        return [], [], ""
    metric = metric_names(groups[0][0])[0]
    models, num_teachers = _models(groups)
    setting = most_timed(
        (setting for model in models for setting in model.latencies), least=2
    )
    looks = [
        (COLORS["teacher"], _MARKERS[number % len(_MARKERS)])
        for number in range(num_teachers)
    ]
    looks += [
        (f"C{number}", _MARKERS[number // _NUM_COLORS % len(_MARKERS)])
        for number in range(len(models) - num_teachers)
    ]
    sized, timed = [], []
    for model, look in zip(models, looks, strict=True):
        files = [
            _Point(
                f"{model.name}, {precision} file",
                milliseconds,
                model.value,
                *look,
                is_hollow=place > 0,
            )
            for place, (milliseconds, precision) in enumerate(
                model.fastest_first(setting)
            )
        ]
        label = files[0].name if files else model.name
        if model.millions:
            sized.append(_Point(label, model.millions, model.value, *look))
        timed += files
    costs = [(sized, "size", "million parameters")] if sized else []
    if timed:
        costs.append((timed, "latency", f"ms, {setting}"))
    shown = metric_format(metric)
    titles = [
        f"{shown.heading(' on dev')} against {cost}" for _, cost, _ in costs
    ]

    return titles, [(points, label) for points, _, label in costs], metric


def _points(axes, points, metric, label, chance=None):
    """Draws points, and the chance level if there is one."""
    scale = metric_scale(metric)
    if chance is not None:
        axes.axhline(
            scale * chance, color="#68737f", linestyle=":", label="chance"
        )
    for point in points:
        axes.plot(
            point.cost,
            scale * point.value,
            color=point.color,
            marker=point.marker,
            markersize=7 if point.is_hollow else 9,
            markerfacecolor="white" if point.is_hollow else point.color,
            markeredgecolor=point.color if point.is_hollow else "white",
            linestyle="none",
            label=legend_name(point.name),
        )
    costs = [point.cost for point in points]
    axes.set_xlim(min(costs) / 1.8, max(costs) * 1.8)
    logarithmic(axes, axes.xaxis, min(costs) / 1.8, max(costs) * 1.8)
    axes.margins(y=0.25)
    axes.set_xlabel(label)
    value_axis(axes)
    _write_values(axes, points, metric)


def _write_values(axes, points, metric):
    """Writes each full point's value above it, unless another is there."""
    to_share = axes.transAxes.inverted()
    written = []
    for point in points:
        if point.is_hollow:
            continue
        place = (point.cost, metric_scale(metric) * point.value)
        across, up = to_share.transform(axes.transData.transform(place))
        if all(
            abs(across - other) > _APART or abs(up - above) > _APART / 2
            for other, above in written
        ):
            written.append((across, up))
            axes.annotate(
                metric_format(metric).number(point.value),
                place,
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )


def _models(groups):
    """Each teacher once, then the students; and the number of teachers."""
    models, places = [], []
    for runs in _by_teacher(groups):
        place = runs[0].teacher_place
        name = "teacher" if place.name == "teacher_run" else place.name
        if runs[0].teacher_run is not None:
            name = runs[0].teacher_run.name
        places.append(place)
        models.append(_model(runs, "teacher", name))
    num_teachers = len(models)
    for group in groups:
        places.append(group[0].run_dir.resolve())
        models.append(_model(group, "student", group[0].name))
    names = names_apart([model.name for model in models], places)
    return [
        dataclasses.replace(model, name=name)
        for model, name in zip(models, names, strict=True)
    ], num_teachers


def _by_teacher(groups):
    """Runs by their teacher, whose seeds are one; without those of none."""
    found = []
    for group in groups:
        if not metric_values(group, "teacher"):
            continue
        places = {_without_seed(run.teacher_place) for run in group}
        runs = list(group)
        for entry in [entry for entry in found if entry[0] & places]:
            found.remove(entry)
            places, runs = entry[0] | places, entry[1] + runs
        found.append((places, runs))
    return [runs for _, runs in found]


def _model(group, arm, name):
    count = model_description(group[0], arm).parameters
    latencies = {}
    for file in (file for run in group for file in exported_files(run, arm)):
        for setting, latency in file.latencies.items():
            timed, found = latencies.setdefault(setting, {}), latency.median_ms
            timed[file.precision] = min(timed.get(file.precision, found), found)
    return _Model(
        name,
        statistics.fmean(metric_values(group, arm)),
        None if count is None else count / 1e6,
        latencies,
    )


def names_apart(
    names: Sequence[str], places: Sequence[pathlib.PurePath]
) -> list[str]:
    """Returns names; equal names get their folders as prefix."""
    found = list(names)
    for name in {name for name in names if names.count(name) > 1}:
        clashing = [index for index, one in enumerate(names) if one == name]
        longer = _longer(name, [places[index] for index in clashing])
        for index, label in zip(clashing, longer, strict=True):
            found[index] = label
    return found


def _without_seed(place):
    """The folder of a run, which all of its seeds have in common."""
    name = SEED.sub("", place.name)
    return place.with_name(name) if name else place.parent


def _longer(name, places):
    """Returns the shortest ends of paths that differ."""
    several = len(set(places))
    for paths in ([*map(_without_seed, places)], places):
        for length in range(2, max(len(path.parts) for path in paths) + 1):
            parts = (path.parts[-length:] for path in paths)
            ends = [str(pathlib.PurePath(*part)) for part in parts]
            if several > 1 and len(set(ends)) == several:
                return ends
    return [name] * len(places)
