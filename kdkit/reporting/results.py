"""Groups runs of several seeds, and writes their tables as Markdown."""

import json
import re
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.reporting.comparison import (
    comparison_table,
    run_count,
    settings_text,
)
from kdkit.reporting.records import RunRecords
from kdkit.reporting.summary import run_title
from kdkit.reporting.tables import plain

# Fields about where and when a run took place.
_NOT_COMPARED = ("seed", "provenance", "teacher")
# The seed in the name of a run's directory, within JSON.
_SEEDED = re.compile(r'([_/-]seed[_-]?)\d+(?=[/"])')


def markdown_tables(runs: Sequence[RunRecords]) -> str:
    """Returns a Markdown table for each group of runs, below its title.

    Runs that differ only in their seed share a table, with mean ± sample
    standard deviation; sizes and latencies are means.

    Args:
        runs: sequence of `RunRecords`, see `read_run`.

    Returns:
        The Markdown text.

    Raises:
        UsageError: If two runs of a group have the same seed.
    """
    return "\n".join(map(_section, group_by_seed(runs)))


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


def _section(group):
    title = f"{group[0].name}: {run_title(group[0])}"
    if len(group) > 1:
        title += f", {run_count(group)}: mean ± sample standard deviation"
    return f"### {plain(title)}\n\n{comparison_table(group).markdown()}\n"


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
