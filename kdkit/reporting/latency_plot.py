"""The picture of accuracy against latency."""

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.point_plot import Point
from kdkit.reporting.point_plot import plot_points
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import Setting
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import most_timed
from kdkit.reporting.tables import metric_names

_MARKERS = {"fp32": "o", "fp16": "s", "int8": "D"}


def latency_setting(records: RunRecords) -> Setting | None:
    """Returns the setting in which most files were timed, or `None`."""
    return most_timed(
        setting
        for arm in ARMS
        for file in exported_files(records, arm)
        if file.metrics
        for setting in file.latencies
    )


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

    points = [
        Point(
            label=_label(file),
            cost=file.latencies[setting].median_ms,
            value=scale * file.metrics[metric],
            color=COLORS[file.arm],
            marker=_MARKERS.get(file.precision, "^"),
        )
        for file in files
    ]
    title = f"{shown.heading()} against latency"
    return plot_points(points, "latency", title, "median latency, ms")


def _label(file):
    """The arm and the precision, and the format if it is not LiteRT."""
    format = "" if file.format == "litert" else f"{file.title} "
    return f"{file.arm} {format}{file.precision}"
