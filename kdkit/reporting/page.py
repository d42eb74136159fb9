"""A run's report: a self-contained HTML page, and a printed table."""

import datetime
import json
import os
import pathlib

from rich.console import Console
from rich.text import Text

from kdkit.io.files import write_text
from kdkit.io.machine import duration
from kdkit.reporting.answers import (
    chance_in_words,
    chance_level,
    data_facts,
    differences,
    differing_in_words,
    errors,
)
from kdkit.reporting.comparison import comparison_table, metric_names
from kdkit.reporting.formatting import (
    DOES_NOT_APPLY,
    NOT_RUN,
    metric_format,
    millions,
    words,
)
from kdkit.reporting.html import render_page
from kdkit.reporting.notes import provenance, run_notes
from kdkit.reporting.plots import plot_losses, plot_metric
from kdkit.reporting.records import RunRecords, read_run
from kdkit.reporting.selection import (
    best_evaluation,
    exported_files,
    metric_curve,
    model_description,
    stage_seconds,
)
from kdkit.reporting.summary import model_title, run_title, stage_title, verdict
from kdkit.reporting.tables import Column, Row, Table
from kdkit.reporting.trade_off import latency_setting, outcome_pictures
from kdkit.runs.events import ARMS

REPORT_FILE = "report.html"
_EXPLAINED = {
    "of teacher": "the student's result as a share of the teacher's",
    "agreement": "how often the top class is the teacher's",
    NOT_RUN: "was not measured",
    DOES_NOT_APPLY: "nothing to measure, or to compare with",
}


def write_report(
    run: str | os.PathLike | RunRecords,
    path: str | os.PathLike | None = None,
) -> pathlib.Path:
    """Writes a run's report: one HTML file with tables and pictures.

    The file loads nothing from elsewhere. An older report is replaced.

    Args:
        run: string, path or `RunRecords`. A run directory, or the result of
            `read_run`.
        path: optional string or path. Defaults to `None`, which is
            `report.html` in the run directory.

    Returns:
        The path of the report.

    Raises:
        UsageError: If `run` is not a run directory.
    """
    records = run if isinstance(run, RunRecords) else read_run(run)
    path = pathlib.Path(path or records.run_dir / REPORT_FILE)
    write_text(path, render_report(records))
    return path


def render_report(records: RunRecords) -> str:
    """Returns the text of a run's HTML report.

    Args:
        records: `RunRecords`.

    Returns:
        A whole HTML document.
    """
    comparison = comparison_table([records])
    made = provenance([records])
    return render_page(
        "report.html.jinja",
        title=run_title(records),
        about=_about(records),
        verdict=verdict(records),
        outcome=_outcome(records),
        comparison=comparison,
        notes=[
            *run_notes(records),
            *_chance_notes(records),
            legend(comparison),
        ],
        data=data_facts(records),
        answers=errors(records),
        teaches=not (records.trains_a_teacher or records.is_on_text),
        differences=differences(records),
        differing=differing_in_words(records),
        metric={
            "svg": plot_metric(records),
            "alt": "Metric over epochs",
            "caption": _stages_in_words(records),
        },
        losses=[
            {
                "title": stage_title(stage.arm, stage.stage),
                "pictures": stage.pictures,
            }
            for stage in plot_losses(records)
        ],
        files=_files_table(records),
        commands="\n".join(made.commands),
        made=[*made.facts, *_facts(records)],
        config=json.dumps(records.config, indent=2),
    )


def print_report(records: RunRecords, console: Console | None = None) -> None:
    """Prints a run's title, table, verdict and notes.

    Args:
        records: `RunRecords`, see `read_run`.
        console: optional `rich.console.Console`. Defaults to one that writes
            to the standard output.
    """
    console = console or Console(highlight=False)
    console.print(Text(run_title(records), style="bold"))
    console.print(comparison_table([records]).terminal())
    console.print(Text(verdict(records)))
    for note in run_notes(records):
        console.print(Text(f"- {note}", style="dim"))


def legend(table: Table) -> str:
    """Explains the words in the titles and cells of a comparison."""
    shown = {column.title for column in table.columns}
    shown.update(cell for row in table.rows for cell in row.cells)
    explained = "; ".join(
        f"“{name}”: {explanation}"
        for name, explanation in _EXPLAINED.items()
        if name in shown
    )
    return f"{explained}. MB are millions of bytes."


def _outcome(records):
    """The pictures that a page opens to."""
    metric = next(iter(metric_names(records)), "")
    pictures = outcome_pictures(records, chance_level(records, metric))
    notes = dict.fromkeys(pictures, "")
    if "latency" in pictures:
        notes["latency"] = f"{latency_setting(records)}. "
    if (
        best_evaluation(records, "control")
        and not exported_files(records, "control")
        and any(
            file.precision == "fp32"
            for file in exported_files(records, "student")
        )
    ):
        for cost in notes.keys() & {"latency", "size"}:
            notes[cost] += (
                f"The control has the {cost} of the student’s fp32 file. "
            )
    return [
        {
            "svg": svg,
            "alt": f"Metric against {cost}",
            "caption": f"{notes[cost]}Better is up and left.",
        }
        for cost, svg in pictures.items()
    ]


def _chance_notes(records):
    answers = next(iter(records.predictions.values()), None)
    if answers is None or not answers.chance:
        return []
    return [f"The best constant answer has {chance_in_words(answers)}."]


def _about(records):
    found = [model_title(records)]
    if "seed" in records.config:
        found.append(f"seed {records.config['seed']}")
    if records.events:
        day = datetime.datetime.fromtimestamp(
            records.events[-1].time, datetime.UTC
        )
        found.append(f"{day:%d %B %Y}".lstrip("0"))
    return [str(fact) for fact in found if fact]


def _stages_in_words(records):
    """The stages of the trained model, with their epochs."""
    metric = next(iter(metric_names(records)), None)
    curve = metric_curve(records, records.trained_arm, metric)
    if curve is None:
        return "After each epoch."
    stages = ", ".join(
        f"{words(stage)} {first}"
        if first == last
        else f"{words(stage)} {first}–{last}"
        for stage, first, last in curve.stages
    )
    return f"After each epoch. The {curve.arm}'s epochs: {stages}."


def _files_table(records):
    """Returns the table of differences between files and Keras models."""
    rows = []
    for arm in ARMS:
        for file in exported_files(records, arm):
            same, metric = file.same_top_class, "same_top_class"
            if file.dimensions:
                same, metric = file.smallest_cosine, "smallest_cosine"
            difference = file.max_abs_difference
            cells = (
                str(file.sequence_length or "any"),
                millions(file.size_bytes),
                NOT_RUN
                if difference is None
                else f"{difference:.1e}".replace("e-0", "e-"),
                DOES_NOT_APPLY
                if same is None
                else metric_format(metric).number(same),
                NOT_RUN if file.examples is None else str(file.examples),
            )
            rows.append(Row(f"{arm}: {file.file}", cells, kind=arm))
    columns = (
        Column("length", "tokens"),
        Column("size", "MB"),
        Column("largest difference", "of an output"),
        _agreement_column(records),
        Column("compared on", "examples"),
    )
    return Table("file", columns, tuple(rows))


def _agreement_column(records):
    files = (file for arm in ARMS for file in exported_files(records, arm))
    if any(file.dimensions for file in files):
        return Column("smallest cosine", "of a vector")
    return Column("same class", "%")


def _facts(records):
    facts = [
        (stage_title(arm, stage), duration(seconds))
        for (arm, stage), seconds in stage_seconds(records).items()
    ]
    return facts + [
        (arm.capitalize(), _architecture(records, arm))
        for arm in ARMS
        if _architecture(records, arm)
    ]


def _architecture(records, arm):
    model = model_description(records, arm)
    sizes = (
        ("num_layers", "layers"),
        ("hidden_dim", "wide"),
        ("num_heads", "heads"),
        ("intermediate_dim", "feed-forward"),
    )
    shape = ", ".join(
        f"{getattr(model, key)} {unit}"
        for key, unit in sizes
        if getattr(model, key)
    )
    name = model.name or ""
    return f"{name} ({shape})" if name and shape else name or shape
