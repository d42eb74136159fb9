"""Runs on text beside each other: perplexities on what was held out and on
other text.
"""

from collections.abc import Sequence

from kdkit.reporting.comparison import run_name
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import millions
from kdkit.reporting.markdown import table_row
from kdkit.reporting.measurements import measurements
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import model_description
from kdkit.reporting.tables import metric_names
from kdkit.reporting.uncertainty import metric_values

# Perplexity over words is the one that is comparable across vocabularies.
TEXT_METRICS = ("word_perplexity", "perplexity")


def markdown_language_models(groups: Sequence[Sequence[RunRecords]]) -> str:
    """Returns a table with a line for each group of runs on text.

    Args:
        groups: sequence of groups of runs that differ only in their seed.
            Those about a task are left out, and what was not evaluated yet.

    Returns:
        A GitHub Markdown table in the order of the groups: perplexity (over
        words, where words were counted) on the text that was held out and on
        each that `kdkit evaluate` measured, or the BLEU of what was written
        there, with the standard deviation over the seeds. Empty for fewer than
        two groups.
    """
    groups = [
        group
        for group in groups
        if group[0].is_on_text and metric_names(group[0])
    ]
    if len(groups) < 2:
        return ""
    lines = [
        "| run on text | teacher | held out | other text | parameters | runs |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    for group in groups:
        first = group[0]
        names = metric_names(first)
        metric = next((one for one in TEXT_METRICS if one in names), names[0])
        count = model_description(first, first.trained_arm).get("parameters")
        cells = [
            run_name(first),
            _teacher(first),
            _level(metric, metric_values(group, first.trained_arm, metric)),
            _elsewhere(group, metric),
            DOES_NOT_APPLY if count is None else f"{millions(count)} M",
            str(len(group)),
        ]
        lines.append(table_row(cells))
    return "\n".join(lines)


def _teacher(run):
    if run.trains_a_teacher:
        return DOES_NOT_APPLY
    if run.teacher_run is None:
        return str(run.config["teacher"]).rstrip("/").rsplit("/", 1)[-1]
    return run_name(run.teacher_run)


def _elsewhere(group, metric):
    found = {}
    for run in group:
        for where, arms in measurements(run).items():
            measured = arms.get(run.trained_arm, {})
            # Of what was written, how good that is.
            name = "bleu" if "bleu" in measured else metric
            if name in measured:
                found.setdefault((where, name), []).append(measured[name])
    texts = (
        f"{where}: {_level(name, values)}"
        + (f" ({len(values)} runs)" if len(values) < len(group) else "")
        for (where, name), values in found.items()
    )
    return "; ".join(texts) or DOES_NOT_APPLY


def _level(metric, values):
    if not values:
        return DOES_NOT_APPLY
    shown = metric_format(metric)
    return f"{shown.mean(values)} {shown.title}"
