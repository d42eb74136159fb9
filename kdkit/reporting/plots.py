"""Plots of curves as SVG: over epochs, and over values of a setting.

`style.mplstyle` has the colours, fonts and rules.
"""

import dataclasses
import io
import math
import pathlib
import statistics
import warnings
from collections.abc import Callable, Sequence

from kdkit.errors import UsageError
from kdkit.late import LateModule
from kdkit.reporting.comparison import metric_names
from kdkit.reporting.formatting import metric_format, words
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import (
    LossCurve,
    best_evaluation,
    loss_curves,
    metric_curve,
)
from kdkit.runs.events import ARMS

figures = LateModule("matplotlib.figure", "matplotlib")
styles = LateModule("matplotlib.style", "matplotlib")
textpath = LateModule("matplotlib.textpath", "matplotlib")
ticker = LateModule("matplotlib.ticker", "matplotlib")

STYLE = pathlib.Path(__file__).with_name("style.mplstyle")
# As in `base.html.jinja`.
COLORS = {"teacher": "#68737f", "control": "#b8500b", "student": "#0a63c2"}
# In SVG units: a picture without its legend, its margins, parts of a legend.
_LARGE, _SMALL, _SQUARE = (400, 300), (320, 210), (320, 320)
_LEFT, _RIGHT, _BOTTOM, _TOP = 50, 12, 46, 30
_LINE, _CHARACTER, _HANDLE = 16, 7, 40
_DASHED = (0, (4, 2))
_MOST_MARKERS = 12  # on one line
_LEAST_SPAN = 0.02  # of the largest value on the y axis
_LOGARITHMIC_FROM = 10  # largest over smallest value


@dataclasses.dataclass(frozen=True)
class LossPictures:
    """The loss curves of one stage of one arm."""

    arm: str
    stage: str
    pictures: dict[str, str]


def plot_losses(records: RunRecords) -> list[LossPictures]:
    """Draws each loss over the epochs, one small picture per objective.

    The y axis is logarithmic if a curve spans a decade.

    Args:
        records: `RunRecords`.

    Returns:
        A list of `LossPictures` in the order of training; empty if no
        epoch has finished.
    """
    stages = {}
    for curve in loss_curves(records):
        stages.setdefault((curve.arm, curve.stage), []).append(curve)
    return [
        LossPictures(
            arm,
            stage,
            dict(_loss_picture(curve) for curve in _in_order(curves)),
        )
        for (arm, stage), curves in stages.items()
    ]


def plot_metric(records: RunRecords) -> str:
    """Draws the main metric on dev over the epochs, a line for each arm.

    Args:
        records: `RunRecords`.

    Returns:
        SVG text, empty if no epoch was evaluated.
    """
    metric = next(iter(metric_names(records)), None)
    curves = [metric_curve(records, arm, metric) for arm in ARMS]
    curves = [curve for curve in curves if curve is not None]
    if not curves:
        return ""
    teacher = best_evaluation(records, "teacher")
    level = None
    if teacher is not None and all(curve.arm != "teacher" for curve in curves):
        level = teacher.metrics.get(metric)
    longest = max((curve.stages for curve in curves), key=len)
    scale = metric_scale(metric)

    def paint(axes):
        if level is not None:
            axes.axhline(
                scale * level,
                color=COLORS["teacher"],
                linestyle=_DASHED,
                label=records.called("teacher"),
            )
        for curve in curves:
            _line(
                axes,
                curve.points,
                scale,
                color=COLORS[curve.arm],
                label=records.called(curve.arm),
            )
        for _, first, _ in longest[1:]:
            axes.axvline(first - 0.5, color="#dfe4ea", linewidth=0.8)
        _epoch_axis(axes)
        value_axis(axes)

    return draw(metric_format(metric).heading(" on dev"), paint)


def plot_learning_curves(runs: Sequence[RunRecords]) -> str:
    """Draws the students' main metric over the epochs, a colour for each run.

    Solid lines with full points show training, dashed lines with hollow points
    dev. Values on training data are means over an epoch, with dropout.

    Args:
        runs: sequence of `RunRecords` on one task.

    Returns:
        SVG text, empty if no epoch was evaluated.

    Raises:
        UsageError: (a `ValueError`) if tasks differ.
    """
    require_one_task(runs)
    metric = next((name for run in runs for name in metric_names(run)), None)
    names = [run.name for run in runs]
    curves = {}
    for run in runs:
        curve = metric_curve(run, "student", metric)
        seed = f", seed {run.config.training.seed}"
        name = run.name + (seed if names.count(run.name) > 1 else "")
        if curve is not None:
            curves[name] = curve
    if not curves:
        return ""
    scale = metric_scale(metric)

    def paint(axes):
        for number, (name, curve) in enumerate(curves.items()):
            color = f"C{number}"
            _line(axes, curve.train, scale, color=color, label=name)
            _line(
                axes,
                curve.points,
                scale,
                color=color,
                linestyle=_DASHED,
                markerfacecolor="white",
                label=None if curve.train else name,
            )
        _epoch_axis(axes)
        value_axis(axes)

    shown = metric_format(metric)
    return draw(shown.heading(", training solid, dev dashed"), paint)


def require_one_task(runs: Sequence[RunRecords]) -> None:
    """Refuses to draw numbers on different tasks in one picture."""
    tasks = sorted({run.task for run in runs})
    if len(tasks) > 1:
        raise UsageError(f"One picture of several tasks: {', '.join(tasks)}.")


def plot_values(curves: dict, metric: str, remark: str, axis: str) -> str:
    """Draws a metric over numbers, a colour for each model.

    Points are means over the seeds, bands reach from the smallest value to the
    largest; a point is hollow if some of the seeds have no value. The y axis
    is logarithmic if positive means span a decade, as perplexities do.

    Args:
        curves: dict from the name of a model to a list of (number, values of
            the seeds, NaN for one that has none), by number; empty for one
            that is not drawn.
        metric: string.
        remark: string. Follows the metric's name in the title.
        axis: string. The label of the x axis.

    Returns:
        SVG text.
    """
    scale = metric_scale(metric)
    lines = {name: _finite(curve) for name, curve in curves.items()}
    lines = {name: points for name, points in lines.items() if points}
    hollow = "hollow: without the seeds that were not finite"

    def paint(axes):
        label = hollow
        for position, (name, points) in enumerate(lines.items()):
            color = f"C{position}"
            numbers = [number for number, _, _ in points]
            values = [values for _, values, _ in points]
            means = list(
                zip(numbers, map(statistics.fmean, values), strict=True)
            )
            axes.fill_between(
                numbers,
                [scale * min(some) for some in values],
                [scale * max(some) for some in values],
                color=color,
                alpha=0.15,
                linewidth=0,
            )
            _line(axes, means, scale, color=color, label=name)
            for (number, mean), (_, _, is_whole) in zip(
                means, points, strict=True
            ):
                if not is_whole:
                    axes.plot(
                        number,
                        scale * mean,
                        "o",
                        markersize=7,
                        markerfacecolor="white",
                        markeredgecolor=color,
                        label=label,
                        zorder=3,
                    )
                    label = None  # one line in the legend
        axes.set_xlabel(axis, loc="center")
        means = [
            statistics.fmean(values)
            for points in lines.values()
            for _, values, _ in points
        ]
        value_axis(axes, means)

    return draw(metric_format(metric).heading(remark), paint)


def plot_scores(
    arm: str, title: str, pairs: Sequence[tuple[float, float]]
) -> str:
    """Draws a model's scores against the labels, a point for each example."""
    labels, scores = zip(*pairs, strict=True)
    low, high = min(labels + scores), max(labels + scores)

    def paint(axes):
        axes.plot([low, high], [low, high], color="#68737f", linestyle=_DASHED)
        axes.plot(
            labels,
            scores,
            "o",
            color=COLORS[arm],
            alpha=0.35,
            markersize=5,
            markeredgewidth=0,
        )
        axes.set_xlabel("label")

    return draw(f"{title}: score", paint, _SQUARE)


def draw(title: str, paint: Callable, size=_LARGE, columns=1) -> str:
    """Returns axes side by side, above one legend, as SVG text."""
    width, height = columns * size[0], size[1]
    with (
        styles.context([STYLE, {"svg.hashsalt": title}]),
        warnings.catch_warnings(),
    ):
        # The viewer's fonts draw the text; matplotlib only measures it.
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font")
        figure = figures.Figure(dpi=72)
        panels = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
        panels[0].set_title(title)
        paint(*panels)
        for axes in panels:
            _fit_title(axes, size[0] - _LEFT)
        legend = {}
        for axes in panels:
            handles, labels = axes.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        bottom = _BOTTOM
        if legend:
            entry = _CHARACTER * max(map(len, legend)) + _HANDLE
            num_columns = min(max(width // entry, 1), len(legend))
            legend_height = _LINE * -(-len(legend) // num_columns)
            width, height = max(width, entry), height + legend_height
            bottom += legend_height
            figure.legend(
                legend.values(),
                legend.keys(),
                loc="lower left",
                ncols=num_columns,
            )
        figure.set_size_inches(width / 72, height / 72)
        figure.subplots_adjust(
            left=_LEFT / width,
            right=1 - _RIGHT / width,
            bottom=bottom / height,
            top=1 - _TOP / height,
            wspace=columns * (_LEFT + _RIGHT) / width,
        )
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", metadata={"Date": None, "Creator": None}
        )
    return buffer.getvalue()


def _fit_title(axes, width):
    """Makes a title smaller that is wider than its picture."""
    title = axes.set_title(axes.get_title(loc="left"))
    text, font = title.get_text(), title.get_fontproperties()
    needed = textpath.TextPath((0, 0), text, prop=font).get_extents().width
    if needed > width:
        title.set_fontsize(title.get_fontsize() * width / needed)


def metric_scale(metric: str) -> int:
    """Returns the factor from a metric to the displayed number."""
    return 100 if metric_format(metric).unit == "%" else 1


def legend_name(name: str) -> str:
    """Returns a run's name in a form that a legend shows."""
    return f" {name}" if name.startswith("_") else name


def _line(axes, points, scale, label=None, **style):
    """A line, with markers if there are few."""
    axes.plot(
        [number for number, _ in points],
        [scale * value for _, value in points],
        marker="o" if len(points) <= _MOST_MARKERS else None,
        label=None if label is None else legend_name(label),
        **style,
    )


def _epoch_axis(axes):
    axes.xaxis.set_major_locator(
        ticker.MaxNLocator(integer=True, nbins=6, min_n_ticks=1)
    )
    axes.set_xlabel("epoch")


def value_axis(axes, values=()) -> None:
    """Sets the y axis: logarithmic if values span a decade, else not narrow."""
    low, high = min(values, default=0), max(values, default=0)
    if low > 0 and high / low >= _LOGARITHMIC_FROM:
        logarithmic(axes, axes.yaxis, low, high)
        return
    low, high = axes.get_ylim()
    least = _LEAST_SPAN * max(abs(low), abs(high))
    if high - low < least:  # noise must not look like a result
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)
    axes.yaxis.set_major_locator(
        ticker.MaxNLocator(nbins=5, steps=(1, 2, 5, 10))
    )


def logarithmic(axes, axis, low: float, high: float) -> None:
    """Makes an axis logarithmic, with few ticks and plain numbers."""
    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    decades = math.log10(high / low)
    ticks = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=ticks, numticks=7))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter("{x:g}")


def _loss_picture(curve: LossCurve):
    """The title and the SVG text of one loss."""
    title = words(curve.name)
    if curve.less_entropy:
        title += " less teacher's entropy"

    def paint(axes):
        color = COLORS[curve.arm]
        if curve.train:
            _line(axes, curve.train, 1, color=color, label="training")
        if curve.dev:
            _line(
                axes,
                curve.dev,
                1,
                color=color,
                linestyle=_DASHED,
                markerfacecolor="white",
                label="dev",
            )
        _epoch_axis(axes)
        value_axis(axes, [value for _, value in curve.train + curve.dev])

    return title, draw(title, paint, _SMALL)


def _in_order(curves):
    """The whole loss first, unless a single objective is all of it."""
    whole = [curve for curve in curves if curve.name == "loss"]
    terms = [curve for curve in curves if curve.name != "loss"]
    if len(terms) == 1 and whole and _are_close(whole[0], terms[0]):
        return terms
    return whole + terms


def _are_close(one, other):
    return len(one.train) == len(other.train) and all(
        math.isclose(value, same, rel_tol=1e-3)
        for (_, value), (_, same) in zip(one.train, other.train, strict=True)
    )


def _finite(curve):
    """A list of (number, finite values, whether these are all)."""
    points = []
    for number, values in curve:
        finite = [value for value in values if math.isfinite(value)]
        if finite:
            points.append((number, finite, len(values) == len(finite)))
    return points
