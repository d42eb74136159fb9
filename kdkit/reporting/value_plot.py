"""A metric over numbers: noise on the weights, values of a setting."""

import math
import statistics

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import LABEL_FONT
from kdkit.reporting.canvas import RUN_COLORS
from kdkit.reporting.canvas import draw
from kdkit.reporting.canvas import label_ends
from kdkit.reporting.canvas import plain_axis
from kdkit.reporting.canvas import plot_line
from kdkit.reporting.canvas import room_for
from kdkit.reporting.canvas import widen
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import words

_AXES_WIDTH, _HEIGHT = 320, 310
_LOGARITHMIC_FROM = 10  # largest over smallest value


def plot_noise(curves: dict, metric: str, scale: str) -> str:
    """Draws a metric over σ, LightPAFF's figure 2.

    Args:
        curves: as in `plot_values`, by σ.
        metric: string.
        scale: string. What σ is a multiple of.

    Returns:
        SVG text.
    """
    return plot_values(
        curves,
        metric,
        " under noise on the weights",
        f"σ, noise of σ × {words(scale)} of each matrix",
    )


def plot_values(curves: dict, metric: str, remark: str, axis: str) -> str:
    """Draws a metric over numbers, a colour for each model.

    Points are means over the seeds, bands reach from the least value to the
    greatest; a point is hollow where some of the seeds have no value. The y
    axis is logarithmic where positive means span a decade, as perplexities do.

    Args:
        curves: dict from the name of a model to a list of (number, values of
            the seeds, NaN for one that has none), by number; empty for one
            that is not drawn.
        metric: string.
        remark: string. Follows the metric's name in the title.
        axis: string. What the x axis is.

    Returns:
        SVG text.
    """
    shown = metric_format(metric)
    factor = 100 if shown.unit == "%" else 1
    lines = {name: _points(curve, factor) for name, curve in curves.items()}
    lines = {name: points for name, points in lines.items() if points}
    means = [
        statistics.fmean(values)
        for points in lines.values()
        for _, values, _ in points
    ]
    low, high = min(means), max(means)
    logarithmic = low > 0 and high / low >= _LOGARITHMIC_FROM

    def paint(axes):
        if logarithmic:
            axes.set_yscale("log")
        ends = {}
        for position, (name, points) in enumerate(lines.items()):
            color = RUN_COLORS[position % len(RUN_COLORS)]
            numbers = [number for number, _, _ in points]
            values = [values for _, values, _ in points]
            center = list(map(statistics.fmean, values))
            axes.fill_between(
                numbers,
                list(map(min, values)),
                list(map(max, values)),
                color=color,
                alpha=0.15,
                linewidth=0,
            )
            plot_line(axes, numbers, center, color=color)
            _mark_incomplete(axes, points, color)
            ends[name] = (center[-1], color)
        if not logarithmic:
            widen(axes)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=logarithmic)
        plain_axis(axes.xaxis, *axes.get_xlim(), logarithmic=False)
        axes.set_xlabel(axis)
        if any(left for points in lines.values() for *_, left in points):
            _say_what_is_hollow(axes)
        label_ends(axes, ends)

    room = room_for(lines)
    return draw(
        (_AXES_WIDTH + room, _HEIGHT),
        f"{metric} over {axis}",
        shown.heading(remark),
        paint,
        top=44,
        right=room,
    )


def _points(curve, factor):
    """A list of (number, finite values, how many others there are)."""
    points = []
    for number, values in curve:
        finite = [factor * value for value in values if math.isfinite(value)]
        if finite:
            points.append((number, finite, len(values) - len(finite)))
    return points


def _mark_incomplete(axes, points, color):
    """Makes points hollow that are means of some of the seeds."""
    for number, values, left_out in points:
        if left_out:
            axes.plot(
                number,
                statistics.fmean(values),
                marker="o",
                markersize=7,
                markerfacecolor=COLORS["page"],
                markeredgecolor=color,
                markeredgewidth=1.8,
                clip_on=False,
                zorder=3,
            )


def _say_what_is_hollow(axes):
    axes.annotate(
        "hollow: without the seeds that were not finite",
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        fontproperties=LABEL_FONT,
        color=COLORS["muted"],
    )
