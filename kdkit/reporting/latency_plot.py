"""The picture of accuracy against latency."""

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import LABEL_FONT
from kdkit.reporting.canvas import draw
from kdkit.reporting.canvas import plain_axis
from kdkit.reporting.canvas import text_size
from kdkit.reporting.canvas import widen
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.labels import place_labels
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import ARMS
from kdkit.reporting.selection import Setting
from kdkit.reporting.selection import exported_files
from kdkit.reporting.tables import metric_names

_SIZE = (430, 310)
_MARKERS = {"fp32": "o", "fp16": "s", "int8": "D"}
_FAR = 14  # a label so far from its point is tied to it by a line


def latency_setting(records: RunRecords) -> Setting | None:
    """Returns the setting in which most files were timed, or `None`."""
    counts = {}
    for arm in ARMS:
        for file in exported_files(records, arm):
            if file.metrics:
                for setting in file.latencies:
                    counts[setting] = counts.get(setting, 0) + 1
    if not counts:
        return None
    return max(counts, key=lambda setting: (counts[setting], setting))


def plot_latency(records: RunRecords) -> str:
    """Draws the main metric against latency, one point for each file.

    Args:
        records: `RunRecords`. Files that were both evaluated and timed, in
            the setting of `latency_setting`, are drawn.

    Returns:
        SVG text, empty where there is no such file.
    """
    setting = latency_setting(records)
    if setting is None:
        return ""
    metric = metric_names(records)[0]
    shown = metric_format(metric)
    scale = 100 if shown.unit == "%" else 1
    files = [
        file
        for arm in ARMS
        for file in exported_files(records, arm)
        if setting in file.latencies and metric in file.metrics
    ]
    if not files:
        return ""

    def paint(axes):
        axes.set_xscale("log")
        points = []
        for file in files:
            milliseconds = file.latencies[setting].median_ms
            value = scale * file.metrics[metric]
            axes.plot(
                milliseconds,
                value,
                color=COLORS[file.arm],
                marker=_MARKERS.get(file.precision, "^"),
                markersize=9,
                markeredgecolor=COLORS["page"],
                linestyle="none",
            )
            label = f"{file.arm} {file.precision}"
            points.append((label, milliseconds, value))
        low = min(point[1] for point in points) / 1.8
        high = max(point[1] for point in points) * 1.8
        axes.set_xlim(low, high)
        axes.margins(y=0.25)
        widen(axes)
        plain_axis(axes.xaxis, low, high, logarithmic=True)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=False)
        axes.set_xlabel("median latency, ms", loc="right")
        _label_points(axes, points)

    title = f"{shown.heading()} against latency"
    return draw(_SIZE, "latency", title, paint, top=44)


def _label_points(axes, points):
    """Writes a label at each (label, x, y), with a line where it is far."""
    axes.autoscale(False)
    anchors = [axes.transData.transform((x, y)) for _, x, y in points]
    sizes = [text_size(axes.figure, label) for label, _, _ in points]
    boxes = place_labels(anchors, sizes, axes.get_window_extent().extents)
    to_data = axes.transData.inverted()
    for (label, x, y), anchor, box in zip(points, anchors, boxes, strict=True):
        arm = label.partition(" ")[0]
        center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        nearest = (
            min(max(anchor[0], box[0]), box[2]),
            min(max(anchor[1], box[1]), box[3]),
        )
        distance = max(abs(anchor[0] - nearest[0]), abs(anchor[1] - nearest[1]))
        if distance > _FAR:
            end = to_data.transform(nearest)
            axes.plot(
                (x, end[0]), (y, end[1]), color=COLORS["muted"], linewidth=0.7
            )
        axes.text(
            *to_data.transform(center),
            label,
            fontproperties=LABEL_FONT,
            color=COLORS[arm],
            horizontalalignment="center",
            verticalalignment="center",
            parse_math=False,
        )
