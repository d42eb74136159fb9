"""Results of runs as Markdown, for the README and the docs."""

import json
import os
import pathlib
import re
import statistics
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.files import write_text
from kdkit.reporting.comparison import markdown_overview
from kdkit.reporting.comparison import run_name
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.language_models import markdown_language_models
from kdkit.reporting.markdown import commands
from kdkit.reporting.markdown import plain
from kdkit.reporting.markdown import table_row
from kdkit.reporting.notes import run_notes
from kdkit.reporting.provenance import provenance
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.summary import model_title
from kdkit.reporting.summary import run_title
from kdkit.reporting.summary import verdict
from kdkit.reporting.tables import ANY_FILE
from kdkit.reporting.tables import KERAS
from kdkit.reporting.tables import Column
from kdkit.reporting.tables import metric_names
from kdkit.reporting.tables import row_label
from kdkit.reporting.tables import table_columns
from kdkit.reporting.tables import table_rows
from kdkit.reporting.uncertainty import WITHIN_NOISE
from kdkit.reporting.uncertainty import arms_are_alike

START_MARKER = "<!-- kdkit:results:start -->"
END_MARKER = "<!-- kdkit:results:end -->"

# Where and when a run took place, not what it was.
_NOT_COMPARED = ("seed", "provenance", "teacher")
# How often a run was saved, at any depth: `kdkit.training.saving.FREE`.
SAVING = ("checkpoint_minutes", "keep_checkpoints")
_LATENCY = ("median_ms", "p95_ms", "speed_up")
# The seed of a run in the name of its directory, as a value of JSON has it.
_SEEDED = re.compile(r'([_/-]seed[_-]?)\d+(?=[/"])')
# Not a matter of the seed, so the mean is given without a deviation.
_MEAN_ALONE = ("parameters", "size_bytes", *_LATENCY)


def markdown_results(runs: Sequence[RunRecords], heading_level: int = 3) -> str:
    """Returns a section of Markdown for each group of runs.

    Runs that differ only in their seed make one section, with mean ± sample
    standard deviation; a teacher's run on a task has none beside its students'.
    Before several sections stand tables of all on tasks and on text. Each
    section has the table, the notes and how the
    numbers were made: commands, commit, seeds and time.

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
            "There are no results without runs. Expected at least one run. "
            "Received: none. Pass the run directories to be written up."
        )
    groups = _without_teachers(group_by_seed(runs))
    sections = [_section(group, "#" * heading_level) for group in groups]
    overviews = (markdown_overview(groups), markdown_language_models(groups))
    sections[:0] = filter(None, overviews)
    return "\n\n".join(sections) + "\n"


def _without_teachers(groups):
    """The groups but for those on a task of teachers of runs among them."""
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


def group_by_seed(
    runs: Sequence[RunRecords],
) -> list[list[RunRecords]]:
    """Returns the runs in groups that differ only in their seed.

    Teachers count as the same when they differ only in their own seed.

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
                    "Two runs are the same but for their directory, so that "
                    "their spread means nothing. Expected runs with "
                    f"different seeds. Received: {str(other.run_dir)!r} and "
                    f"{str(run.run_dir)!r}, seed {run.config.get('seed')}. "
                    "Leave one of them out."
                )
    return list(_joined(groups))


def markdown_table(runs: Sequence[RunRecords]) -> str:
    """Returns the comparison of one run, or of one over several seeds.

    Args:
        runs: sequence of `RunRecords` that differ only in their seed.

    Returns:
        A GitHub Markdown table. With several runs, what depends on the seed
        is mean ± sample standard deviation; a teacher that the runs share
        counts once; "(2 runs)" marks what only some of the runs have.
    """
    columns = max((table_columns(run) for run in runs), key=len)
    lines = [
        table_row(["model", *(column.heading for column in columns)]),
        "| --- |" + " ---: |" * len(columns),
    ]
    for arm, label, rows in _merged_rows(runs):
        called = runs[0].called(arm)
        name = f"{called}, {plain(label)}"
        if label == KERAS:
            name = f"**{called}**"
        present = [row for row in rows if row]
        if len(present) < len(rows):
            name += f" ({_count(present)})"
        cells = (
            _cell(column, [row.get(column.key) for row in present])
            for column in columns
        )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def replace_results(path: str | os.PathLike, markdown: str) -> None:
    """Writes results between the markers of a Markdown file.

    Args:
        path: string or path. A file with one line
            `<!-- kdkit:results:start -->` and, below it, one line
            `<!-- kdkit:results:end -->`. All other text stays as it is.
        markdown: string. The new text between the two.

    Raises:
        UsageError: If the file is missing, is not UTF-8 or has not one of each
            marker, in this order.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise UsageError(
            f"{str(path)!r} is no file. Expected a Markdown file with the "
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
            f"{str(path)!r} does not say where its results go. Expected one "
            f"line {START_MARKER} and below it one line {END_MARKER}. "
            f"Received: {counts[0]} start and {counts[1]} end markers"
            f"{', in the wrong order' if counts == (1, 1) else ''}. Add or "
            "move the lines."
        )
    results = f"\n\n{markdown.strip()}\n\n"
    write_text(path, before + start + results + end + after)


def _section(runs, hashes):
    first = runs[0]
    model = model_title(first)
    title = f"{run_name(first)}: {run_title(first)}"
    title += f", {model}" if model else ""
    parts = [f"{hashes} {plain(title)}"]
    if len(runs) == 1:
        parts.append(plain(verdict(first)))
    else:
        parts.append(
            f"{len(runs)} runs: mean ± sample standard deviation over seeds; "
            f"sizes and latencies are means.{_over_seeds(runs)}"
        )
    parts.append(markdown_table(runs))
    made = provenance(runs)
    items = [f"- {plain(note)}" for note in _common_notes(runs)]
    items += [f"- {label}: {plain(text)}" for label, text in made.facts]
    parts.append("\n".join(items))
    if made.commands:
        parts.append(commands(made.commands))
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
    """What a run was but for its seed, such that it can be compared."""
    teacher = json.dumps(run.config.get("teacher"), sort_keys=True)
    if run.teacher_run is not None:
        teacher = _identity(run.teacher_run)
    return teacher, _as_text(run.config, leave_out=_NOT_COMPARED)


def _joined(groups):
    """Groups as one whose runs begin with runs of their own seeds."""
    joined = {}
    for identity, group in groups.items():
        same = tuple(_SEEDED.sub(r"\1", text) for text in _texts(identity))
        joined.setdefault(same, []).append(group)
    for alike in joined.values():
        runs = [run for group in alike for run in group]
        seeds = {run.config.get("seed") for run in runs}
        # Of one seed twice, what differs is not the seed.
        yield from [runs] if len(seeds) == len(runs) else alike


def _texts(identity):
    """The texts in nested tuples, one after the other."""
    if isinstance(identity, str):
        return [identity]
    return [text for part in identity for text in _texts(part)]


def _as_text(config, leave_out):
    # Outputs of the teacher that were kept exactly change nothing.
    kept = {
        key: _set(value)
        for key, value in config.items()
        if key not in leave_out + SAVING
        and _is_set(value)
        and not (key == "cache" and value.get("precision") == "fp32")
        and (key, value) != ("dtype_policy", "float32")
    }
    return json.dumps(kept, sort_keys=True)


def _is_set(value):
    """What is not set is as if an earlier version had not known it."""
    return value is not None and value is not False


def _set(value):
    """What is set in a value, at any depth."""
    if isinstance(value, dict):
        return {
            key: _set(one)
            for key, one in value.items()
            if _is_set(one) and key not in SAVING
        }
    if isinstance(value, list):
        return [_set(one) for one in value]
    return value


def _merged_rows(runs):
    """Yields (arm, label, values of each run), files by latency setting."""
    tables = [(run, table_rows(run)) for run in runs]
    names = {}
    for _, rows in tables:
        for row in rows:
            settings = names.setdefault((row.arm, row.label), set())
            if row.setting is not None:
                settings.add(row.setting)
    all_settings = set().union(*names.values())
    for arm, label in sorted(names, key=lambda name: _arm_order(name, names)):
        if label == ANY_FILE and any(
            other == arm and kind not in (KERAS, ANY_FILE)
            for other, kind in names
        ):
            continue
        contributors = _distinct_runs(tables, arm)
        for setting in sorted(names[arm, label]) or [None]:
            yield (
                arm,
                row_label(label, setting, all_settings),
                [
                    _values(rows, arm, label, setting)
                    for _, rows in contributors
                ],
            )


def _arm_order(name, names):
    arms = list(dict.fromkeys(arm for arm, _ in names))
    return arms.index(name[0])


def _distinct_runs(tables, arm):
    if arm != "teacher":
        return tables
    distinct = {}
    for run, rows in tables:
        teacher = run.config
        if run.teacher_run is not None:
            teacher = run.teacher_run.config
        elif not run.trains_a_teacher:
            teacher = {"teacher": run.config.get("teacher")}
        # The same settings and seed give the same teacher again.
        key = _as_text(teacher, leave_out=("provenance",))
        distinct.setdefault(key, (run, rows))
    return list(distinct.values())


def _values(rows, arm, label, setting):
    same_file = [row for row in rows if (row.arm, row.label) == (arm, label)]
    for row in same_file:
        if row.setting == setting:
            return row.values
    if not same_file:
        return {}
    return {**same_file[0].values, **dict.fromkeys(_LATENCY)}


def _cell(column: Column, values):
    numbers = [value for value in values if value not in (None, DOES_NOT_APPLY)]
    if not numbers:
        return DOES_NOT_APPLY if DOES_NOT_APPLY in values else NOT_RUN
    text = column.number(statistics.fmean(numbers))
    if len(numbers) > 1 and column.key not in _MEAN_ALONE:
        text += f" ± {column.number(statistics.stdev(numbers))}"
    if len(numbers) < len(values):
        text += f" ({_count(numbers)})"
    return text


def _count(runs):
    return f"{len(runs)} run" + ("" if len(runs) == 1 else "s")
