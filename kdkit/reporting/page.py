"""The page of runs: one HTML file that loads nothing from elsewhere."""

import base64
import datetime
import os
import pathlib
from collections.abc import Sequence

import jinja2
from rich.console import Console
from rich.text import Text

from kdkit.config.differences import differing_fields
from kdkit.io.files import write_text
from kdkit.reporting.formatting import NONE, portable_path
from kdkit.reporting.plots import (
    plot_losses,
    plot_metric,
    plot_scores,
    plot_trade_off,
)
from kdkit.reporting.records import RunRecords
from kdkit.reporting.results import comparison_table, names_apart
from kdkit.reporting.tables import Column, Row, Table
from kdkit.reporting.words import (
    differences,
    provenance,
    run_notes,
    run_title,
    verdict,
)


def print_report(run: RunRecords, console: Console | None = None) -> None:
    """Prints a run's title, table, verdict and notes.

    Args:
        run: `RunRecords`, see `read_run`.
        console: optional `rich.console.Console`. Defaults to one that writes
            to the standard output.
    """
    console = console or Console(highlight=False)
    console.print(Text(run_title(run), style="bold"))
    console.print(comparison_table([run]).terminal())
    console.print(Text(verdict(run)))
    for note in run_notes(run):
        console.print(Text(f"- {note}", style="dim"))


def write_report(
    runs: Sequence[RunRecords], path: str | os.PathLike
) -> pathlib.Path:
    """Writes the page of one run, or of several next to each other.

    Args:
        runs: sequence of `RunRecords`, see `read_run`.
        path: string or path of the page. A page that exists is replaced.

    Returns:
        The path.
    """
    path = pathlib.Path(path)
    write_text(path, render_report(runs))
    return path


def render_report(runs: Sequence[RunRecords]) -> str:
    """Returns the page of one run, or of several next to each other.

    Several runs have one table and one picture, the fields in which they
    differ, and the answers of each. One run also has its losses, the examples
    where student and teacher differ, and its configuration.

    Args:
        runs: sequence of `RunRecords`.

    Returns:
        A whole HTML document.
    """
    first, *others = runs
    places = [run.run_dir.resolve() for run in runs]
    named = dict(zip(names_apart(places), runs, strict=True))
    notes = {}
    for name, run in named.items():
        for note in run_notes(run):
            notes.setdefault(note, []).append(name)
    notes = [
        note if len(names) == len(runs) else f"{', '.join(names)}: {note}"
        for note, names in notes.items()
    ]
    verdicts = [verdict(first)]
    if others:
        verdicts = [f"{name}: {verdict(run)}" for name, run in named.items()]
        verdicts += differences(runs)
    pictures = []
    if len({run.subject for run in runs}) == 1:
        pictures = [
            (
                "Metric against costs: better is up and left",
                plot_trade_off(runs),
            ),
            ("Metric over epochs, dashed on dev", plot_metric(runs)),
        ]
    commands, facts = provenance(runs)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data_uri"] = _data_uri
    environment.filters["nbsp"] = lambda text: text.replace(" %", "\u00a0%")
    return environment.get_template("report.html.jinja").render(
        title=f"{len(runs)} runs" if others else run_title(first),
        about=_about(runs),
        verdicts=verdicts,
        pictures=[one for one in pictures if one[1]],
        table=comparison_table(runs),
        notes=[*notes, f"“{NONE}”: not measured, or nothing to compare with."],
        settings=_settings(named) if others else None,
        answers=[
            (f"{name}, {arm}" if others else arm, arm, one, _scores(arm, one))
            for name, run in named.items()
            for arm, one in run.predictions.items()
        ],
        differing=first.predictions.get("student") if not others else None,
        losses={} if others else plot_losses(first),
        commands="\n".join(commands),
        facts=facts,
        config="" if others else first.config.model_dump_json(indent=2),
    )


def _about(runs):
    found = dict.fromkeys(map(run_title, runs)) if len(runs) > 1 else {}
    times = [event.time for run in runs for event in run.events]
    if times:
        day = datetime.datetime.fromtimestamp(max(times), datetime.UTC)
        found[f"{day:%d %B %Y}".lstrip("0")] = None
    return found


def _scores(arm, answers):
    return plot_scores(arm, answers.scores) if answers.scores else ""


def _settings(named):
    """The settings in which a run differs from the first."""
    configs = [run.config.model_dump(mode="json") for run in named.values()]
    first, *others = configs
    fields = {}
    for number, other in enumerate(others, 1):
        for field, (was, is_now) in differing_fields(first, other).items():
            cells = fields.setdefault(field, [was] * len(configs))
            cells[number] = is_now
    return Table(
        "setting",
        tuple(Column(name, is_text=True) for name in named),
        tuple(
            Row(field, tuple(portable_path(cell.strip('"')) for cell in cells))
            for field, cells in fields.items()
        ),
    )


def _data_uri(svg):
    text = base64.b64encode(svg.encode()).decode()
    return f"data:image/svg+xml;base64,{text}"
