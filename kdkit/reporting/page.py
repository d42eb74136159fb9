"""Reports of runs: HTML pages of one and of several, Markdown, a terminal.

A page is one file that loads nothing from elsewhere.
"""

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
from kdkit.io.machine import duration
from kdkit.reporting.answers import (
    chance_in_words,
    chance_level,
    data_facts,
    differences,
    differing_in_words,
    errors,
)
from kdkit.reporting.comparison import (
    WITHIN_NOISE,
    comparison_table,
    files_table,
    group_by_seed,
    is_noise,
    metric_names,
    run_count,
)
from kdkit.reporting.formatting import (
    DOES_NOT_APPLY,
    NOT_RUN,
    metric_format,
    portable_path,
    words,
)
from kdkit.reporting.notes import provenance, run_notes
from kdkit.reporting.plots import (
    plot_learning_curves,
    plot_losses,
    plot_metric,
)
from kdkit.reporting.records import RunRecords, read_run
from kdkit.reporting.selection import (
    best_evaluation,
    exported_files,
    metric_curve,
    model_description,
    stage_seconds,
)
from kdkit.reporting.summary import model_title, run_title, stage_title, verdict
from kdkit.reporting.tables import NO_NUMBER, Column, Row, Table, plain
from kdkit.reporting.trade_off import (
    latency_setting,
    names_apart,
    outcome_pictures,
    trade_off_pictures,
)
from kdkit.runs.events import ARMS

REPORT_FILE = "report.html"
_FEW_ENTRIES = 6  # of a setting with several, which are listed
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
    files = [file for arm in ARMS for file in exported_files(records, arm)]
    return _render_page(
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
        teaches=records.is_distillation,
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
        files=files_table(files, [f"{one.arm}: {one.file}" for one in files]),
        commands="\n".join(made.commands),
        made=[*made.facts, *_facts(records)],
        config=records.config.model_dump_json(indent=2),
    )


def write_comparison(
    runs: Sequence[RunRecords], path: str | os.PathLike
) -> pathlib.Path:
    """Writes one HTML page with several runs next to each other.

    Args:
        runs: sequence of at least two `RunRecords`, see `read_run`.
        path: string or path of the page. A page that exists is replaced.

    Returns:
        The path.
    """
    path = pathlib.Path(path)
    write_text(path, render_comparison(runs))
    return path


def render_comparison(runs: Sequence[RunRecords]) -> str:
    """Returns the text of a page with several runs next to each other.

    The page has the runs' models in one table and one picture, the settings
    that differ from those of the first run, and the errors of each run's
    models.

    Args:
        runs: sequence of at least two `RunRecords`.

    Returns:
        A whole HTML document that loads nothing from elsewhere.
    """
    labels = [run.label for run in runs]
    places = [run.run_dir.resolve() for run in runs]
    named = dict(zip(names_apart(labels, places), runs, strict=True))
    models = _models_table(named)
    distilled = [run for run in runs if run.is_distillation]
    return _render_page(
        "comparison.html.jinja",
        title=" and ".join(named) if len(named) < 4 else f"{len(named)} runs",
        about=list(dict.fromkeys(map(run_title, runs))),
        verdicts=_verdicts(named),
        outcome=_pictures(
            trade_off_pictures([[run] for run in _of_one_task(distilled)]),
            "Better is up and left.",
        ),
        curves=_pictures(
            [plot_learning_curves(_of_one_task(runs))], "Better is up."
        ),
        models=models,
        notes=[legend(models)],
        settings=_settings_table(named),
        answers=_errors(named),
        commands="\n".join(provenance(runs).commands),
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
    found = [model_title(records), f"seed {records.config.training.seed}"]
    if records.events:
        day = datetime.datetime.fromtimestamp(
            max(event.time for event in records.events), datetime.UTC
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


def _of_one_task(runs):
    """The runs, or none: different tasks are not drawn in one picture."""
    return runs if len({run.task for run in runs}) == 1 else []


def _pictures(svgs, caption):
    return [
        {"svg": svg, "alt": "Metric of the runs", "caption": caption}
        for svg in svgs
        if svg
    ]


def _verdicts(named):
    """The difference of each run's model from that of the first, in words."""
    (first, reference), *others = named.items()
    return [
        text
        for name, run in others
        if (text := _verdict(name, run, first, reference))
    ]


def _verdict(name, run, first, reference):
    metric = next(iter(metric_names(reference)), None)
    found = [best_evaluation(one, one.trained_arm) for one in (run, reference)]
    if run.task != reference.task:
        return f"{name} and {first} are on different tasks."
    if metric is None or any(
        one is None or metric not in one.metrics for one in found
    ):
        return f"{name} and {first} have no evaluation to compare."
    value, other = (one.metrics[metric] for one in found)
    shown = metric_format(metric)
    text = (
        f"{name} reaches {shown.text(value)} {shown.title}, "
        f"{first} {shown.text(other)}"
    )
    difference = shown.difference(value - other)
    if not difference:
        return f"{text}: no difference."
    text = f"{text}: {difference}"
    if is_noise(metric, [value], [other], found[0].examples):
        text += f", {WITHIN_NOISE}, so no difference is shown"
    return f"{text}."


def _models_table(named):
    """The models and files of all runs that have numbers, in one table."""
    places = [run.teacher_place for run in named.values()]
    columns, rows = {}, {}
    for (name, run), place in zip(named.items(), places, strict=True):
        table = comparison_table([run])
        titles = [column.title for column in table.columns]
        columns.update(zip(titles, table.columns, strict=True))
        for row in table.rows:
            if row.cells[0] == NOT_RUN:
                continue
            is_shared = row.kind == "teacher" and places.count(place) > 1
            head = row.parent or row.name
            key = (place if is_shared else name, head, row.name)
            owner = head if is_shared else f"{name}, {head}"
            cells = dict(zip(titles, row.cells, strict=True))
            rows.setdefault(key, (owner, row, cells))
    return Table(
        "model",
        tuple(columns.values()),
        tuple(
            Row(
                row.name if row.parent else owner,
                tuple(cells.get(title, DOES_NOT_APPLY) for title in columns),
                parent=owner if row.parent else "",
                kind=row.kind,
                note=row.note,
            )
            for owner, row, cells in rows.values()
        ),
    )


def _errors(named):
    """Each run's errors; those of a teacher of several runs once."""
    found, places = [], set()
    for name, run in named.items():
        place = run.teacher_place
        arms = ("student",) if place in places else ("student", "teacher")
        found.append(errors(run, name, arms))
        places.add(place)
    return found


def _settings_table(named):
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
            Row(field, tuple(map(_setting_text, cells)))
            for field, cells in fields.items()
        ),
    )


def _setting_text(value):
    """A setting as a reader writes it; of a whole object only its size."""
    if value.startswith("("):
        count = value.count(",") + 1
        return value if count <= _FEW_ENTRIES else f"{count} settings"
    if value == "null":
        return "not set"
    return portable_path(value.removeprefix('"').removesuffix('"'))


def _section(group):
    title = f"{group[0].name}: {run_title(group[0])}"
    if len(group) > 1:
        title += f", {run_count(group)}: mean ± sample standard deviation"
    return f"### {plain(title)}\n\n{comparison_table(group).markdown()}\n"


def _render_page(template: str, **values) -> str:
    """Returns a whole HTML document that loads nothing from elsewhere."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["nbsp"] = _with_units
    environment.filters["data_uri"] = _data_uri
    environment.globals.update(not_run=NOT_RUN, no_number=NO_NUMBER)
    return environment.get_template(template).render(**values)


def _with_units(text):
    """Keeps numbers on the line of their unit."""
    return text.replace(" %", "\u00a0%")


def _data_uri(svg):
    return (
        f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    )
