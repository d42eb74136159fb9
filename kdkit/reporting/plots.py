"""Pictures of runs as SVG. `style.mplstyle` has colours, fonts and rules."""

import collections
import io
import pathlib
import statistics
import warnings
from collections.abc import Callable, Sequence

from kdkit.errors import UsageError
from kdkit.late import LateModule
from kdkit.reporting.formatting import metric_format, words
from kdkit.reporting.records import RunRecords
from kdkit.reporting.results import (
    best_evaluation,
    evaluations_of,
    lines,
    main_metric,
    names_apart,
)
from kdkit.runs.events import Epoch, Evaluation

figures = LateModule("matplotlib.figure", "matplotlib")
styles = LateModule("matplotlib.style", "matplotlib")
ticker = LateModule("matplotlib.ticker", "matplotlib")

STYLE = pathlib.Path(__file__).with_name("style.mplstyle")
# As in `report.html.jinja`.
COLORS = {"teacher": "#68737f", "control": "#b8500b", "student": "#0a63c2"}
_MARKERS = {"fp32": "o", "fp16": "s", "int8": "D", "int4": "v"}
_MOST_MARKERS = 12  # on one line
_COSTS = {  # of a Keras model, of a file
    "parameters": "million parameters",
    "size_bytes": "MB",
    "median_ms": "ms",
}


def plot_metric(runs: Sequence[RunRecords]) -> str:
    """Draws the main metric over the epochs: dashed on dev, solid on train.

    Values on training data are means over an epoch, with dropout.

    Args:
        runs: sequence of `RunRecords` on one task. Of one run, all arms have a
            line; of several, the trained model of each.

    Returns:
        SVG text, empty if no epoch was evaluated.

    Raises:
        UsageError: (a `ValueError`) if tasks differ.
    """
    require_one_task(runs)
    metric, curves = main_metric(runs[0]), {}
    names = names_apart([run.run_dir.resolve() for run in runs])
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        for arm in run.arms if len(runs) == 1 else [run.trained_arm]:
            dev, train = _metric_curve(run, arm, metric)
            color, name = f"C{number}", name
            if len(runs) == 1:
                color, name = COLORS[arm], run.called(arm)
            if dev:
                curves[name] = (color, dev, train)
    teacher = best_evaluation(runs[0], "teacher")

    def paint(axes):
        for name, (color, dev, train) in curves.items():
            style = {"color": color, "scale": metric_format(metric).scale}
            _line(axes, dev, label=name, linestyle="--", **style)
            if train:
                _line(axes, train, **style)
        is_drawn = len(runs) > 1 or "teacher" in curves or teacher is None
        if not is_drawn and metric in teacher.metrics:
            level = metric_format(metric).scale * teacher.metrics[metric]
            axes.axhline(level, color=COLORS["teacher"], label="teacher")
        axes.set_xlabel("epoch")

    return draw(metric_format(metric).heading(), paint) if curves else ""


def _metric_curve(run, arm, metric):
    """A metric over epochs on dev and on training data, stage after stage."""
    found = [
        event
        for event in evaluations_of(run, arm)
        if event.epoch is not None and metric in event.metrics
    ]
    starts, end = {}, 0
    for event in found:
        starts.setdefault(event.stage, end)
        end = starts[event.stage] + event.epoch
    dev = [
        (starts[one.stage] + one.epoch, one.metrics[metric]) for one in found
    ]
    train = [
        (starts[one.stage] + one.epoch, one.logs[metric])
        for one in run.events_of(Epoch, arm=arm)
        if one.stage in starts and metric in one.logs
    ]
    return dev, train


def plot_losses(run: RunRecords) -> dict[str, str]:
    """Draws each loss over the epochs of its stage, dashed on dev.

    Returns:
        A dict from a title, such as "Student, intermediate layer: loss", to
        SVG text.
    """
    metrics = {
        name
        for event in run.events_of(Evaluation)
        for name in (*event.metrics, *event.agreement)
    } | {"learning_rate"}
    found = collections.defaultdict(lambda: ({}, {}))
    for event in run.events_of(Epoch):
        for log, value in event.logs.items():
            name = log.removeprefix("val_")
            if name in metrics or metric_format(name).unit:
                continue
            title = f"{event.arm.capitalize()}, {words(event.stage)}: "
            title += words(name)
            if name in (event.less_teacher_entropy or ()):
                title += " less teacher's entropy"
            found[event.arm, title][name != log][event.epoch] = value

    def picture(title, arm, train, dev):
        def paint(axes):
            for curve, style in ((train, "-"), (dev, "--")):
                _line(axes, curve.items(), color=COLORS[arm], linestyle=style)
            axes.set_xlabel("epoch")

        return draw(title.partition(": ")[2], paint, (4.4, 3.0))

    return {
        title: picture(title, arm, *curves)
        for (arm, title), curves in found.items()
    }


def plot_trade_off(runs: Sequence[RunRecords]) -> str:
    """Draws the main metric against parameters, and of files against costs.

    A point for each Keras model by its parameters, and one for each file that
    was evaluated by its size, and by its latency in the setting in which most
    were timed. Points are means over seeds. LightPAFF's table 10, as a picture.

    Args:
        runs: sequence of `RunRecords` on one task.

    Returns:
        SVG text, empty if nothing was evaluated.

    Raises:
        UsageError: (a `ValueError`) if tasks differ.
    """
    require_one_task(runs)
    metric, found = main_metric(runs[0]), lines(runs)
    owners = list(dict.fromkeys(line.owner for line in found))
    settings = collections.Counter(
        line.setting for line in found if line.setting and line.of(metric)
    )
    usual = settings.most_common(1)[0][0] if settings else ()
    panels = {
        key: [
            line
            for line in found
            if bool(line.name) == (key != "parameters")
            and (key != "median_ms" or line.setting == usual)
            and line.of(key)
            and line.of(metric)
        ]
        for key in _COSTS
    }
    panels = {key: points for key, points in panels.items() if points}

    def paint(*axes):
        shown = metric_format(metric)
        for panel, (key, points) in zip(axes, panels.items(), strict=True):
            for line in points:
                color = COLORS[line.arm]
                if len(owners) > 2 and line.arm != "teacher":
                    color = f"C{owners.index(line.owner)}"
                cost = statistics.fmean(line.of(key)) / (
                    1 if key == "median_ms" else 1e6
                )
                parts = (line.owner, line.arm, line.name)
                panel.plot(
                    cost,
                    shown.scale * statistics.fmean(line.of(metric)),
                    _MARKERS.get(line.name.rpartition(" ")[2], "o"),
                    color=color,
                    markersize=8,
                    label=", ".join(filter(None, parts)),
                )
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_minor_locator(ticker.NullLocator())
            panel.xaxis.set_major_formatter("{x:g}")
            panel.margins(0.25)
            label = [_COSTS[key], *(usual[:3] if key == "median_ms" else ())]
            panel.set_xlabel(", ".join(label))

    title = metric_format(metric).heading()
    return draw(title, paint, (3.7, 3.6), len(panels)) if panels else ""


def plot_values(
    points: Sequence[tuple[float, float]], metric: str, remark: str, axis: str
) -> str:
    """Draws a metric over the values of a setting.

    Args:
        points: sequence of (value of the setting, metric).
        metric: string. Its name.
        remark: string. Follows the metric's name in the title.
        axis: string. The label of the x axis.

    Returns:
        SVG text.
    """
    shown = metric_format(metric)

    def paint(axes):
        _line(axes, points, scale=shown.scale)
        axes.set_xlabel(axis, loc="center")

    return draw(shown.heading(remark), paint)


def plot_scores(arm: str, pairs: Sequence[tuple[float, float]]) -> str:
    """Draws a model's scores against the labels, a point for each example."""

    def paint(axes):
        axes.scatter(*zip(*pairs, strict=True), color=COLORS[arm], alpha=0.35)
        axes.axline(pairs[0][:1] * 2, slope=1, linestyle="--", color="#68737f")
        axes.set_xlabel("label")

    return draw(f"{arm.capitalize()}: score", paint, (4.4, 4.4))


def require_one_task(runs: Sequence[RunRecords]) -> None:
    """Refuses to draw numbers on different data in one picture."""
    tasks = sorted({run.subject for run in runs})
    if len(tasks) > 1:
        raise UsageError(f"One picture of several tasks: {', '.join(tasks)}.")


def draw(title: str, paint: Callable, size=(5.4, 3.9), columns=1) -> str:
    """Returns axes side by side, above one legend, as SVG text."""
    with (
        styles.context([STYLE, {"svg.hashsalt": title}]),
        warnings.catch_warnings(),
    ):
        # The viewer's fonts draw the text; matplotlib only measures it.
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from font")
        figure = figures.Figure(
            (columns * size[0], size[1]), layout="constrained"
        )
        panels = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
        panels[0].set_title(title)
        paint(*panels)
        legend = {}
        for axes in panels:
            handles, labels = axes.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        if legend:
            figure.legend(
                legend.values(),
                legend.keys(),
                loc="outside lower left",
                ncols=2 * columns,
            )
        buffer = io.StringIO()
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", metadata=metadata)
    return buffer.getvalue()


def _line(axes, points, label=None, scale=1, **style):
    """A line, with markers if there are few points."""
    points = [(x, scale * y) for x, y in points]
    if points:
        marker = "o" if len(points) <= _MOST_MARKERS else None
        axes.plot(
            *zip(*points, strict=True), marker=marker, label=label, **style
        )
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
