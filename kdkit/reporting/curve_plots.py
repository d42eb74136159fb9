"""Pictures of training: losses and the metric on dev over the epochs."""

import dataclasses
import itertools
import math

from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import LABEL_FONT
from kdkit.reporting.canvas import draw
from kdkit.reporting.canvas import epoch_axis
from kdkit.reporting.canvas import label_ends
from kdkit.reporting.canvas import plain_axis
from kdkit.reporting.canvas import plot_line
from kdkit.reporting.canvas import text_size
from kdkit.reporting.canvas import widen
from kdkit.reporting.curves import Curve
from kdkit.reporting.curves import loss_curves
from kdkit.reporting.curves import metric_curve
from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import words
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.tables import metric_names

_SMALL = (320, 210)
_LARGE = (430, 310)
_LABEL_WIDTH = 60  # right of the axes
_LOGARITHMIC_FROM = 10  # largest over smallest value


@dataclasses.dataclass(frozen=True)
class LossPictures:
    """The loss curves of one stage of one arm.

    Args:
        arm: string.
        stage: string.
        pictures: tuple of SVG strings, one for each objective.
    """

    arm: str
    stage: str
    pictures: tuple[str, ...]


def plot_losses(records: RunRecords) -> list[LossPictures]:
    """Draws each loss over the epochs, one small picture per objective.

    Solid lines with full points are training, dashed lines with hollow
    points dev. The y axis is logarithmic
    where a curve spans a decade.

    Args:
        records: `RunRecords`.

    Returns:
        A list of `LossPictures` in the order of training; empty where no
        epoch has finished.
    """
    stages = {}
    for curve in loss_curves(records):
        stages.setdefault((curve.arm, curve.stage), []).append(curve)
    return [
        LossPictures(arm, stage, tuple(map(_plot_loss, _in_order(curves))))
        for (arm, stage), curves in stages.items()
    ]


def plot_metric(records: RunRecords) -> str:
    """Draws the main metric on dev over the epochs.

    Student and control are lines, the teacher's level is a dashed one.

    Args:
        records: `RunRecords`.

    Returns:
        SVG text, empty where no epoch was evaluated.
    """
    metric = next(iter(metric_names(records)), None)
    curves = [metric_curve(records, arm, metric) for arm in ARMS]
    curves = [curve for curve in curves if curve is not None]
    if not curves:
        return ""
    shown = metric_format(metric)
    scale = 100 if shown.unit == "%" else 1
    last = max(curve.points[-1][0] for curve in curves)

    def paint(axes):
        ends = {}
        level = _teacher_level(records, metric, curves)
        if level is not None:
            ends["teacher"] = scale * level, COLORS["teacher"]
            axes.axhline(
                scale * level, color=COLORS["teacher"], linestyle=(0, (5, 3))
            )
        for curve in curves:
            epochs = [epoch for epoch, _ in curve.points]
            values = [scale * value for _, value in curve.points]
            ends[curve.arm] = values[-1], COLORS[curve.arm]
            plot_line(axes, epochs, values, color=COLORS[curve.arm])
        axes.set_xlim(1 - min(0.05 * last, 0.5), last)
        axes.margins(y=0.12)
        widen(axes)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=False)
        epoch_axis(axes)
        _mark_stages(axes, curves)
        label_ends(axes, ends)

    title = shown.heading(" on dev")
    return draw(_LARGE, "metric", title, paint, top=44, right=_LABEL_WIDTH)


def _teacher_level(records, metric, curves):
    """The teacher's metric, unless its epochs are among the curves."""
    teacher = best_evaluation(records, "teacher")
    if teacher is None or any(curve.arm == "teacher" for curve in curves):
        return None
    return teacher.metrics.get(metric)


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


def _plot_loss(curve: Curve):
    values = [value for _, value in curve.train + curve.dev]
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low >= _LOGARITHMIC_FROM

    def paint(axes):
        if logarithmic:
            axes.set_yscale("log")
        color = COLORS[curve.arm]
        for points, style, inside in (
            (curve.train, "-", color),
            (curve.dev, (0, (4, 2)), COLORS["page"]),
        ):
            plot_line(
                axes,
                [epoch for epoch, _ in points],
                [value for _, value in points],
                color=color,
                linestyle=style,
                markerfacecolor=inside,
            )
        epochs = [epoch for epoch, _ in curve.train + curve.dev]
        margin = min(0.05 * max(epochs), 0.5)
        axes.set_xlim(min(epochs) - margin, max(epochs) + margin)
        if not logarithmic:
            widen(axes)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=logarithmic)
        epoch_axis(axes)

    title = words(curve.name)
    if curve.less_entropy:
        title += " less teacher's entropy"
    name = f"{curve.arm} {curve.stage} {title}"
    return draw(_SMALL, name, title, paint)


def _mark_stages(axes, curves):
    """Separates the stages of the student and names them if there is room."""
    stages = max((curve.stages for curve in curves), key=len)
    if len(stages) < 2:
        return
    names = [words(stage) for stage, _, _ in stages]
    edges = [axes.get_xlim()[0], *(first - 0.5 for _, first, _ in stages[1:])]
    edges.append(axes.get_xlim()[1])
    for edge in edges[1:-1]:
        axes.axvline(edge, color=COLORS["rule"], linewidth=0.8)
    pixels = [axes.transData.transform((edge, 0))[0] for edge in edges]
    rooms = [end - start for start, end in itertools.pairwise(pixels)]
    widths = [text_size(axes.figure, name)[0] for name in names]
    if any(width > room for width, room in zip(widths, rooms, strict=True)):
        return
    for name, (start, end) in zip(
        names, itertools.pairwise(edges), strict=True
    ):
        axes.text(
            (start + end) / 2,
            1.0,
            name,
            transform=axes.get_xaxis_transform(),
            horizontalalignment="center",
            verticalalignment="bottom",
            fontproperties=LABEL_FONT,
            color=COLORS["muted"],
            parse_math=False,
        )
