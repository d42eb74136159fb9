"""A metric against a cost: one named point for each model or file."""

import dataclasses
from collections.abc import Sequence

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import LABEL_FONT
from kdkit.reporting.canvas import draw
from kdkit.reporting.canvas import plain_axis
from kdkit.reporting.canvas import text_size
from kdkit.reporting.canvas import widen
from kdkit.reporting.labels import place_labels

_SIZE = (430, 310)
_FAR = 14  # a label so far from its point is tied to it by a line


@dataclasses.dataclass(frozen=True)
class Point:
    """One point of a picture.

    Args:
        label: string.
        cost: float. Above 0; the axis is logarithmic.
        value: float.
        color: string.
        marker: string, of matplotlib. Defaults to `"o"`.
    """

    label: str
    cost: float
    value: float
    color: str
    marker: str = "o"


def plot_points(
    points: Sequence[Point], name: str, title: str, cost: str
) -> str:
    """Draws points, their labels beside them and none over another.

    Args:
        points: sequence of `Point`.
        name: string. Sets the picture's ids apart from those of others.
        title: string.
        cost: string. What the x axis is.

    Returns:
        SVG text.
    """

    def paint(axes):
        axes.set_xscale("log")
        for point in points:
            axes.plot(
                point.cost,
                point.value,
                color=point.color,
                marker=point.marker,
                markersize=9,
                markeredgecolor=COLORS["page"],
                linestyle="none",
            )
        low = min(point.cost for point in points) / 1.8
        high = max(point.cost for point in points) * 1.8
        axes.set_xlim(low, high)
        axes.margins(y=0.25)
        widen(axes)
        plain_axis(axes.xaxis, low, high, logarithmic=True)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=False)
        axes.set_xlabel(cost, loc="right")
        _label(axes, points)

    return draw(_SIZE, name, title, paint, top=44)


def _label(axes, points):
    """Writes a label at each point, with a line where it is far."""
    axes.autoscale(False)
    anchors = [
        axes.transData.transform((point.cost, point.value)) for point in points
    ]
    sizes = [text_size(axes.figure, point.label) for point in points]
    boxes = place_labels(anchors, sizes, axes.get_window_extent().extents)
    to_data = axes.transData.inverted()
    for point, anchor, box in zip(points, anchors, boxes, strict=True):
        center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        nearest = (
            min(max(anchor[0], box[0]), box[2]),
            min(max(anchor[1], box[1]), box[3]),
        )
        distance = max(abs(anchor[0] - nearest[0]), abs(anchor[1] - nearest[1]))
        if distance > _FAR:
            end = to_data.transform(nearest)
            axes.plot(
                (point.cost, end[0]),
                (point.value, end[1]),
                color=COLORS["muted"],
                linewidth=0.7,
            )
        axes.text(
            *to_data.transform(center),
            point.label,
            fontproperties=LABEL_FONT,
            color=point.color,
            horizontalalignment="center",
            verticalalignment="center",
            parse_math=False,
        )
