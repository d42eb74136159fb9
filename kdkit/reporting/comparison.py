"""Several runs beside each other: a table of methods, learning curves."""

import statistics
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.reporting.canvas import COLORS
from kdkit.reporting.canvas import RUN_COLORS
from kdkit.reporting.canvas import draw
from kdkit.reporting.canvas import epoch_axis
from kdkit.reporting.canvas import label_ends
from kdkit.reporting.canvas import plain_axis
from kdkit.reporting.canvas import plot_line
from kdkit.reporting.canvas import room_for
from kdkit.reporting.curves import metric_curve
from kdkit.reporting.curves import training_curve
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import millions
from kdkit.reporting.formatting import times
from kdkit.reporting.markdown import table_row
from kdkit.reporting.records import SEED
from kdkit.reporting.records import STEP
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description
from kdkit.reporting.summary import task_name
from kdkit.reporting.tables import metric_names
from kdkit.reporting.uncertainty import WITHIN_NOISE
from kdkit.reporting.uncertainty import arms_are_alike
from kdkit.reporting.uncertainty import metric_values

_AXES_WIDTH, _HEIGHT = 320, 310
# What stands behind a number of the overview, and what it means below it.
WITHIN, COLLAPSED = " ≈", " (collapsed)"
LEGEND = {
    WITHIN: f"≈: {WITHIN_NOISE} of the student.",
    COLLAPSED: "collapsed: no better than the commonest answer to all.",
}


def run_name(records: RunRecords) -> str:
    """Returns what a run's directory is called, without its seed.

    Runs of several seeds stand in `NAME_seed0`, `NAME_seed1` or in
    `NAME/seed_0`, `NAME/seed_1`; those of the arms of an ablation in
    `DIR/ARM/seed_0`, whose name is `DIR_ARM`, and what a command made before
    its own run in `NAME/teacher_run`, whose name is `NAME_teacher`.
    """
    path = records.run_dir.resolve()
    name = SEED.sub("", path.name)
    if not name:
        name = path.parent.name
        if _command(records).startswith("kdkit ablate "):
            name = f"{path.parent.parent.name}_{name}"
    step = STEP.fullmatch(name)
    return f"{path.parent.name}_{step.group(1)}" if step else name


def run_label(records: RunRecords) -> str:
    """Returns the name of a run, in which its seed stands.

    That of `NAME/seed_0` is `NAME_seed0`.
    """
    name = records.run_dir.resolve().name
    if SEED.fullmatch(name):
        return f"{run_name(records)}_seed{SEED.search(name).group(1)}"
    return run_name(records) if STEP.fullmatch(name) else name


def markdown_overview(groups: Sequence[Sequence[RunRecords]]) -> str:
    """Returns a table with a line for each group of distillations.

    Args:
        groups: sequence of groups of runs that differ only in their seed, as
            `kdkit.reporting.results.group_by_seed` makes them. Other runs are
            left out, and what was not evaluated yet.

    Returns:
        A GitHub Markdown table by task, in the order of the groups: the
        metric on dev of student, teacher and control, how much of the
        teacher's the student keeps, parameters and, where files were timed,
        the int8 file. Marks, explained below it, show what is within two
        standard errors of the student, and what has collapsed. Empty for fewer
        than two distillations.
    """
    groups = [
        group
        for group in groups
        if group[0].config.get("verb") == "distill" and metric_names(group[0])
    ]
    if len(groups) < 2:
        return ""
    lines = [
        "| task | run | student, dev | of teacher | teacher | same student "
        "without teacher | parameters | int8 file | runs |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for group in sorted(groups, key=lambda group: _task_order(group, groups)):
        cells = [
            task_name(group[0]),
            run_name(group[0]),
            _metric(group, "student") + _fallen(group, "student"),
            _kept(group),
            _metric(group, "teacher") + _alike(group, "teacher"),
            _metric(group, "control")
            + _alike(group, "control")
            + _fallen(group, "control"),
            _parameters(group[0]),
            _smallest_file(group),
            str(len(group)),
        ]
        lines.append(table_row(cells))
    table = "\n".join(lines)
    legend = [text for mark, text in LEGEND.items() if f"{mark} |" in table]
    return "\n\n".join([table, *filter(None, [" ".join(legend)])])


def without_arms(groups: Sequence[Sequence[RunRecords]]) -> list:
    """Returns the groups but those with runs of `kdkit ablate`.

    Args:
        groups: as for `markdown_overview`.
    """
    return [
        group
        for group in groups
        if not any(_command(run).startswith("kdkit ablate ") for run in group)
    ]


def _command(records):
    return str((records.config.get("provenance") or {}).get("command", ""))


def plot_learning_curves(runs: Sequence[RunRecords]) -> str:
    """Draws the students' main metric over the epochs, a colour for each run.

    Solid lines with full points are training, dashed lines with hollow points
    dev. On training data it is the mean over an epoch, with dropout.

    Args:
        runs: sequence of `RunRecords` on one task.

    Returns:
        SVG text.

    Raises:
        UsageError: (a `ValueError`) if tasks differ or no epoch was evaluated.
    """
    tasks = sorted({task_name(run) for run in runs})
    metric = next((name for run in runs for name in metric_names(run)), None)
    curves = [
        (name, metric_curve(run, "student", metric), run)
        for name, run in zip(_names(runs), runs, strict=True)
    ]
    curves = [entry for entry in curves if entry[1] is not None]
    if len(tasks) > 1 or not curves:
        raise UsageError(
            "Learning curves are of runs of kdkit distill on one task, with an "
            f"epoch behind them. Received: tasks {tasks}, {len(curves)} of "
            f"{len(runs)} runs with an epoch."
        )
    shown = metric_format(metric)
    scale = 100 if shown.unit == "%" else 1

    def paint(axes):
        ends = {}
        for number, (name, dev, run) in enumerate(curves):
            color = RUN_COLORS[number % len(RUN_COLORS)]
            sides = (
                (training_curve(run, "student", metric), "-", color),
                (dev.points, (0, (4, 2)), COLORS["page"]),
            )
            for points, style, inside in sides:
                plot_line(
                    axes,
                    [epoch for epoch, _ in points],
                    [scale * value for _, value in points],
                    color=color,
                    linestyle=style,
                    markerfacecolor=inside,
                )
            ends[name] = (scale * dev.points[-1][1], color)
        axes.margins(y=0.12)
        plain_axis(axes.yaxis, *axes.get_ylim(), logarithmic=False)
        epoch_axis(axes)
        label_ends(axes, ends)

    room = room_for(name for name, _, _ in curves)
    return draw(
        (_AXES_WIDTH + room, _HEIGHT),
        "learning curves",
        shown.heading(", training solid, dev dashed"),
        paint,
        top=44,
        right=room,
    )


def _names(runs):
    """What the runs are called; with their seeds where names clash."""
    names = [run_name(run) for run in runs]
    return [
        f"{name}, seed {run.config.get('seed')}"
        if names.count(name) > 1
        else name
        for name, run in zip(names, runs, strict=True)
    ]


def _task_order(group, groups):
    tasks = [task_name(other[0]) for other in groups]
    return tasks.index(task_name(group[0]))


def _metric(group, arm):
    metric = metric_names(group[0])[0]
    shown = metric_format(metric)
    values = metric_values(group, arm)
    if not values:
        return DOES_NOT_APPLY
    what = shown.unit if metric == "accuracy" else shown.title
    return f"{shown.mean(values)} {what}"


def _alike(group, arm):
    """The mark of an arm within two standard errors of the student."""
    return WITHIN if arms_are_alike(group, "student", arm) else ""


def _fallen(group, arm):
    """The mark of an arm of which a run has collapsed."""
    evaluations = [best_evaluation(run, arm) for run in group]
    return (
        COLLAPSED if any(one and one.collapsed for one in evaluations) else ""
    )


def _kept(group):
    teacher = metric_values(group, "teacher")
    student = metric_values(group, "student")
    if not teacher or not student or not statistics.fmean(teacher) > 0:
        return DOES_NOT_APPLY
    share = statistics.fmean(student) / statistics.fmean(teacher)
    return f"{100 * share:.1f} %"


def _parameters(run):
    count = model_description(run, "student").get("parameters")
    return DOES_NOT_APPLY if count is None else f"{millions(count)} M"


def _smallest_file(group):
    """Size of the student's int8 file, and its gain over the teacher's."""
    student = _first_file(group[0], "student", "int8")
    teacher = _first_file(group[0], "teacher", "fp32")
    if student is None:
        return DOES_NOT_APPLY
    text = f"{millions(student.size_bytes)} MB"
    if teacher is None:
        return text
    for setting, latency in student.latencies.items():
        if setting in teacher.latencies:
            ratio = teacher.latencies[setting].median_ms / latency.median_ms
            return f"{text}, {times(ratio)} as fast"
    return text


def _first_file(run, arm, precision):
    files = [
        file for file in exported_files(run, arm) if file.precision == precision
    ]
    return files[0] if files else None
