"""Results of several runs as Markdown, for documents."""

import json
import os
import pathlib
import re
import statistics
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.reporting.comparison import (
    WITHIN_NOISE,
    arms_are_alike,
    comparison_table,
    metric_names,
    metric_values,
    settings_text,
    teacher_share,
)
from kdkit.reporting.formatting import (
    DOES_NOT_APPLY,
    metric_format,
    millions,
    times,
)
from kdkit.reporting.notes import measurements, provenance, run_notes
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import (
    best_evaluation,
    exported_files,
    model_description,
)
from kdkit.reporting.summary import model_title, run_title, verdict
from kdkit.reporting.tables import Column, Row, Table, code_block, plain

START_MARKER = "<!-- kdkit:results:start -->"
END_MARKER = "<!-- kdkit:results:end -->"
# Perplexity over words is the one that is comparable across vocabularies.
TEXT_METRICS = ("word_perplexity", "perplexity")
# Marks behind numbers of the overview, and their explanation below it.
WITHIN, COLLAPSED = " ≈", " (collapsed)"
_LEGEND = {
    WITHIN: f"≈: {WITHIN_NOISE} of the student.",
    COLLAPSED: "collapsed: at least one seed is no better than the commonest "
    "answer to all.",
}
# Fields about where and when a run took place.
_NOT_COMPARED = ("seed", "provenance", "teacher")
# The seed in the name of a run's directory, within JSON.
_SEEDED = re.compile(r'([_/-]seed[_-]?)\d+(?=[/"])')


def markdown_results(runs: Sequence[RunRecords], heading_level: int = 3) -> str:
    """Returns a section of Markdown for each group of runs.

    Runs that differ only in their seed make one section, with mean ± sample
    standard deviation; a teacher's run on a task has none next to its
    students'. Several sections follow tables of all runs on tasks and of all
    on text. Each section has the table, the notes and the provenance:
    commands, commit, seeds and time.

    Args:
        runs: sequence of `RunRecords`, see `read_run`.
        heading_level: integer. The number of `#` before a section's title.
            Defaults to 3.

    Returns:
        The Markdown text.

    Raises:
        UsageError: If two runs of a group have the same seed, or there are no
            runs.
    """
    if not runs:
        raise UsageError(
            "Results need at least one run. Received: none. Pass the run "
            "directories."
        )
    groups = _without_teachers(group_by_seed(runs))
    sections = [_section(group, "#" * heading_level) for group in groups]
    overviews = (markdown_overview(groups), _markdown_language_models(groups))
    sections[:0] = filter(None, overviews)
    return "\n\n".join(sections) + "\n"


def group_by_seed(runs: Sequence[RunRecords]) -> list[list[RunRecords]]:
    """Returns the runs in groups that differ only in their seed.

    Teachers that differ only in their own seed count as the same.

    Args:
        runs: sequence of `RunRecords`.

    Returns:
        A list of lists of `RunRecords`, in the order of their first runs.

    Raises:
        UsageError: If two runs have the same configuration and seed.
    """
    groups = {}
    for run in runs:
        groups.setdefault(_identity(run), []).append(run)
    for group in groups.values():
        by_seed = {}
        for run in group:
            other = by_seed.setdefault(run.config.get("seed"), run)
            if other is not run:
                raise UsageError(
                    "Two runs have the same settings and seed, so their spread "
                    "means nothing. Expected runs with "
                    f"different seeds. Received: {str(other.run_dir)!r} and "
                    f"{str(run.run_dir)!r}, seed {run.config.get('seed')}. "
                    "Remove one of them."
                )
    return list(_joined(groups))


def without_arms(groups: Sequence[Sequence[RunRecords]]) -> list:
    """Returns the groups without runs of `kdkit ablate`.

    Args:
        groups: as for `markdown_overview`.
    """
    return [
        group for group in groups if not any(run.is_ablation for run in group)
    ]


def markdown_overview(groups: Sequence[Sequence[RunRecords]]) -> str:
    """Returns a table with a line for each group of distillations.

    Args:
        groups: sequence of groups of runs that differ only in their seed, as
            `group_by_seed` makes them. Other runs, and runs without an
            evaluation, are omitted.

    Returns:
        A GitHub Markdown table by task, in the order of the groups: the
        metric on dev of student, teacher and control, the share of the
        teacher's that the student keeps, parameters and, where files were
        timed, the int8 file. Marks, explained below it, show results within two
        standard errors of the student, and models that collapsed. Empty for
        fewer than two distillations.
    """
    groups = [
        group
        for group in groups
        if group[0].config.get("verb") == "distill" and metric_names(group[0])
    ]
    if len(groups) < 2:
        return ""
    tasks = list(dict.fromkeys(group[0].task for group in groups))
    rows = [
        Row(
            group[0].task,
            (
                group[0].name,
                _level(group, "student") + _fallen(group, "student"),
                _kept(group),
                _level(group, "teacher") + _alike(group, "teacher"),
                _level(group, "control")
                + _alike(group, "control")
                + _fallen(group, "control"),
                _parameters(group[0], "student"),
                _smallest_file(group[0]),
                str(len(group)),
            ),
        )
        for group in sorted(groups, key=lambda one: tasks.index(one[0].task))
    ]
    titles = (
        "student, dev",
        "of teacher",
        "teacher",
        "same student without teacher",
        "parameters",
        "int8 file",
        "runs",
    )
    columns = (Column("run", is_text=True), *map(Column, titles))
    table = Table("task", columns, tuple(rows)).markdown()
    legend = [text for mark, text in _LEGEND.items() if f"{mark} |" in table]
    return "\n\n".join([table, *filter(None, [" ".join(legend)])])


def replace_results(path: str | os.PathLike, markdown: str) -> None:
    """Writes results between the markers of a Markdown file.

    Args:
        path: string or path. A file with one line
            `<!-- kdkit:results:start -->` and, below it, one line
            `<!-- kdkit:results:end -->`. All other text stays as it is.
        markdown: string. The new text between the two.

    Raises:
        UsageError: If the file is missing, is not UTF-8 or does not have one of
            each marker, in this order.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise UsageError(
            f"{str(path)!r} is not a file. Expected a Markdown file with the "
            f"lines {START_MARKER} and {END_MARKER}. Received: nothing "
            "there. Make the file with both lines first."
        )
    # Line ends of any kind stay as they are.
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(path)!r} is not UTF-8. Expected a Markdown file in it. "
            f"Received: byte 0x{error.object[error.start]:02x} at position "
            f"{error.start}. Convert the file, for example with iconv."
        ) from error
    before, start, rest = text.partition(START_MARKER)
    _, end, after = rest.partition(END_MARKER)
    counts = (text.count(START_MARKER), text.count(END_MARKER))
    if not (start and end) or counts != (1, 1):
        raise UsageError(
            f"{str(path)!r} has no place for results. Expected one "
            f"line {START_MARKER} and below it one line {END_MARKER}. "
            f"Received: {counts[0]} start and {counts[1]} end markers"
            f"{', in the wrong order' if counts == (1, 1) else ''}. Add or "
            "move the lines."
        )
    results = f"\n\n{markdown.strip()}\n\n"
    write_text(path, before + start + results + end + after)


def _without_teachers(groups):
    """The groups without teachers' runs on a task whose students are there."""
    runs = [run for group in groups for run in group]
    taught = [run.teacher_run for run in runs if run.teacher_run is not None]
    places = {teacher.run_dir.resolve() for teacher in taught}
    return [
        group
        for group in groups
        if group[0].is_on_text
        or not group[0].trains_a_teacher
        or any(run.run_dir.resolve() not in places for run in group)
    ]


def _section(runs, hashes):
    first = runs[0]
    model = model_title(first)
    title = f"{first.name}: {run_title(first)}"
    title += f", {model}" if model else ""
    parts = [f"{hashes} {plain(title)}"]
    if len(runs) == 1:
        parts.append(plain(verdict(first)))
    else:
        parts.append(
            f"{len(runs)} runs: mean ± sample standard deviation over seeds; "
            f"sizes and latencies are means.{_over_seeds(runs)}"
        )
    parts.append(comparison_table(runs).markdown())
    made = provenance(runs)
    items = [f"- {plain(note)}" for note in _common_notes(runs)]
    items += [f"- {label}: {plain(text)}" for label, text in made.facts]
    parts.append("\n".join(items))
    if made.commands:
        parts.append(code_block(made.commands))
    return "\n\n".join(parts)


def _over_seeds(runs):
    """Notes on differences within the spread of seeds, and on collapse."""
    found = [
        f"Student and {arm}: {WITHIN_NOISE}, by that deviation."
        for arm in ("teacher", "control")
        if metric_names(runs[0]) and arms_are_alike(runs, "student", arm)
    ]
    for arm in ("student", "control"):
        evaluations = [best_evaluation(run, arm) for run in runs]
        count = sum(bool(one and one.collapsed) for one in evaluations)
        if count:
            found.append(f"Collapsed: the {arm} of {count} of these runs.")
    return "".join(f" {text}" for text in found)


def _common_notes(runs):
    """Notes on all runs once; a note on some names their seeds."""
    seeds = {}
    for run in runs:
        for note in run_notes(run):
            seeds.setdefault(note, []).append(str(run.config.get("seed")))
    of_all = [note for note in seeds if len(seeds[note]) == len(runs)]
    of_some = [
        f"Seed{'s' if len(seeds[note]) > 1 else ''} "
        f"{', '.join(seeds[note])}: {note}"
        for note in seeds
        if note not in of_all
    ]
    return of_all + of_some


def _identity(run):
    """A run without its seed, in a form that can be compared."""
    teacher = json.dumps(run.config.get("teacher"), sort_keys=True)
    if run.teacher_run is not None:
        teacher = _identity(run.teacher_run)
    return teacher, settings_text(run.config, leave_out=_NOT_COMPARED)


def _joined(groups):
    """Joins groups whose runs start from runs with their own seeds."""
    joined = {}
    for identity, group in groups.items():
        same = tuple(_SEEDED.sub(r"\1", text) for text in _texts(identity))
        joined.setdefault(same, []).append(group)
    for alike in joined.values():
        runs = [run for group in alike for run in group]
        seeds = {run.config.get("seed") for run in runs}
        # With one seed twice, the difference is not the seed.
        yield from [runs] if len(seeds) == len(runs) else alike


def _texts(identity):
    """The texts in nested tuples, one after the other."""
    if isinstance(identity, str):
        return [identity]
    return [text for part in identity for text in _texts(part)]


def _level(group, arm):
    metric = metric_names(group[0])[0]
    shown = metric_format(metric)
    values = metric_values(group, arm)
    if not values:
        return DOES_NOT_APPLY
    unit = shown.unit if metric == "accuracy" else shown.title
    return f"{shown.mean(values)} {unit}"


def _alike(group, arm):
    """The mark of an arm within two standard errors of the student."""
    return WITHIN if arms_are_alike(group, "student", arm) else ""


def _fallen(group, arm):
    """The mark of an arm that has collapsed in one of the runs."""
    evaluations = [best_evaluation(run, arm) for run in group]
    return (
        COLLAPSED if any(one and one.collapsed for one in evaluations) else ""
    )


def _kept(group):
    teacher = metric_values(group, "teacher")
    student = metric_values(group, "student")
    is_share = metric_format(metric_names(group[0])[0]).higher_is_better
    if not teacher or not student or not is_share:
        return DOES_NOT_APPLY
    share = teacher_share(statistics.fmean(student), statistics.fmean(teacher))
    return DOES_NOT_APPLY if share is None else f"{100 * share:.1f} %"


def _parameters(run, arm):
    count = model_description(run, arm).parameters
    return DOES_NOT_APPLY if count is None else f"{millions(count)} M"


def _smallest_file(run):
    """Size of the student's int8 file, and its gain over the teacher's."""
    student, teacher = (
        next(
            (
                file
                for file in exported_files(run, arm)
                if file.precision == precision
            ),
            None,
        )
        for arm, precision in (("student", "int8"), ("teacher", "fp32"))
    )
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


def _markdown_language_models(groups):
    """A table with a line for each group of runs on text, if there are two."""
    groups = [
        group
        for group in groups
        if group[0].is_on_text and metric_names(group[0])
    ]
    if len(groups) < 2:
        return ""
    columns = (
        Column("teacher", is_text=True),
        Column("held out"),
        Column("other text", is_text=True),
        Column("parameters"),
        Column("runs"),
    )
    rows = []
    for group in groups:
        first = group[0]
        names = metric_names(first)
        metric = next((one for one in TEXT_METRICS if one in names), names[0])
        cells = (
            _teacher(first),
            _text_level(
                metric, metric_values(group, first.trained_arm, metric)
            ),
            _elsewhere(group, metric),
            _parameters(first, first.trained_arm),
            str(len(group)),
        )
        rows.append(Row(first.name, cells))
    return Table("run on text", columns, tuple(rows)).markdown()


def _teacher(run):
    if run.trains_a_teacher:
        return DOES_NOT_APPLY
    if run.teacher_run is None:
        return str(run.config["teacher"]).rstrip("/").rsplit("/", 1)[-1]
    return run.teacher_run.name


def _elsewhere(group, metric):
    found = {}
    for run in group:
        for where, arms in measurements(run).items():
            measured = arms.get(run.trained_arm, {})
            # For generated text, its quality.
            name = "bleu" if "bleu" in measured else metric
            if name in measured:
                found.setdefault((where, name), []).append(measured[name])
    texts = (
        f"{where}: {_text_level(name, values)}"
        + (f" ({len(values)} runs)" if len(values) < len(group) else "")
        for (where, name), values in found.items()
    )
    return "; ".join(texts) or DOES_NOT_APPLY


def _text_level(metric, values):
    if not values:
        return DOES_NOT_APPLY
    shown = metric_format(metric)
    return f"{shown.mean(values)} {shown.title}"
