"""The report as one HTML file that needs nothing beside it."""

import datetime
import html
import os
import pathlib

from kdkit.files import write_text
from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.html_details import files
from kdkit.reporting.html_details import losses
from kdkit.reporting.html_details import origin
from kdkit.reporting.html_details import quality_and_speed
from kdkit.reporting.html_page import PAGE
from kdkit.reporting.html_page import STYLE
from kdkit.reporting.html_parts import cell
from kdkit.reporting.html_parts import section
from kdkit.reporting.html_parts import text
from kdkit.reporting.notes import run_notes
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import model_title
from kdkit.reporting.summary import run_title
from kdkit.reporting.summary import verdict
from kdkit.reporting.tables import KERAS
from kdkit.reporting.tables import cell_text
from kdkit.reporting.tables import latency_settings
from kdkit.reporting.tables import row_label
from kdkit.reporting.tables import table_columns
from kdkit.reporting.tables import table_rows

REPORT_FILE = "report.html"


def write_report(
    run: str | os.PathLike | RunRecords,
    path: str | os.PathLike | None = None,
) -> pathlib.Path:
    """Writes a run's report: one HTML file with tables and pictures.

    The file loads nothing from elsewhere. An older report there is replaced.

    Args:
        run: string, path or `RunRecords`. A run directory, or what
            `read_run` read from it.
        path: optional string or path. Defaults to `None`, which is
            `report.html` in the run directory.

    Returns:
        The path of the report.

    Raises:
        UsageError: If `run` is no run directory.
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
    title = html.escape(run_title(records))
    sections = (
        _header(records),
        section("Comparison", _comparison(records)),
        section("Quality and speed", quality_and_speed(records)),
        section("Losses", losses(records)),
        section("Exported files", files(records)),
        section("How it was made", origin(records)),
    )
    return PAGE.substitute(title=title, style=STYLE, body="\n".join(sections))


def _header(records):
    about = [
        model_title(records),
        f"seed {records.config['seed']}" if "seed" in records.config else None,
    ]
    if records.events:
        day = datetime.datetime.fromtimestamp(
            records.events[-1]["time"], datetime.UTC
        )
        about.append(f"{day:%d %B %Y}".lstrip("0"))
    spans = "".join(f"<span>{text(str(fact))}</span>" for fact in about if fact)
    return (
        "<header>\n"
        '<p class="kind">kdkit report</p>\n'
        f"<h1>{text(run_title(records))}</h1>\n"
        f'<p class="about">{spans}</p>\n'
        f'<p class="verdict">{text(verdict(records))}</p>\n'
        "</header>"
    )


def _comparison(records):
    columns = table_columns(records)
    rows = table_rows(records)
    settings = latency_settings(rows)
    head = "".join(
        f'<th scope="col">{text(column.title)}'
        f"<small>{text(column.unit) or '&nbsp;'}</small></th>"
        for column in columns
    )
    bodies = []
    for arm in ARMS:
        lines = [
            _comparison_row(row, records.called(arm), settings, columns)
            for row in rows
            if row.arm == arm
        ]
        if lines:
            bodies.append(
                f'<tbody class="{arm}">\n' + "\n".join(lines) + "\n</tbody>"
            )
    return (
        '<div class="wide"><table>\n'
        f'<thead><tr><th class="name">model</th>{head}</tr></thead>\n'
        + "\n".join(bodies)
        + f"\n</table></div>\n{_notes(records)}"
    )


def _comparison_row(row, called, settings, columns):
    kind = "file"
    name = text(row_label(row.label, row.setting, settings))
    if row.label == KERAS:
        kind = "first"
        name = f'<span class="dot"></span>{text(called)}'
    cells = "".join(
        cell(cell_text(column, row.values[column.key])) for column in columns
    )
    return (
        f'<tr class="{kind}"><th class="name" scope="row">{name}</th>'
        f"{cells}</tr>"
    )


def _notes(records):
    explained = {
        "of teacher": "the share of the teacher's result that is kept",
        "agreement": "how often the top class is the teacher's",
        NOT_RUN: "was not measured",
        DOES_NOT_APPLY: "nothing to measure",
    }
    used = {column.title for column in table_columns(records)}
    used |= {NOT_RUN, DOES_NOT_APPLY}
    legend = "; ".join(
        f"“{name}”: {explained[name]}" for name in explained if name in used
    )
    notes = [*run_notes(records), f"{legend}. MB are millions of bytes."]
    items = "\n".join(f"<li>{text(note)}</li>" for note in notes)
    return f'<ul class="note">\n{items}\n</ul>'
