"""Runs a recipe for each choice of some settings, and ranks the runs on dev.

Each choice is a run in DIR/trials/, which kdkit report reads. The same command
continues a stopped sweep. Name a setting as in --set (stages.0.learning_rate,
with an index or the stage's name), or by the end of its path. tensorboard
--logdir DIR/trials shows the runs' curves. The last line is a JSON object. A
sweep never uses a test split.

With --corpus or --pairs, and without --task, the runs are runs of kdkit
pretrain: a recipe's stages on text, ranked by the perplexity on held-out text.
Settings that decide which tokens are measured, such as masks, the vocabulary or
the sequence length, cannot be varied.

example:
  kdkit sweep vanilla_kd --task mrpc --data-dir glue --teacher runs/teacher \\
      --over temperature=5,10,20 learning_rate=5e-5,2e-5 --run-dir runs/sweep
  kdkit sweep pkd --paper --task mrpc --data-dir glue \\
      --teacher runs/teacher --run-dir runs/pkd_search
  kdkit sweep lightpaff --corpus wiki.txt --teacher bert_base_en_uncased \\
      --over soft_label_weight=0.0,0.2,0.4,0.6,0.8,1.0 \\
      --curves lambda.svg --run-dir runs/lambda
  kdkit sweep lightpaff --paper --corpus ptb.train.txt \\
      --held-out ptb.valid.txt --one-document --detokenizer ptb \\
      --teacher runs/gpt2_ptb --student runs/general --run-dir runs/ptb_lambda
"""

import argparse
import dataclasses
import json
import pathlib

from rich.console import Console

from kdkit.cli.groups import (
    ONE_MACHINE,
    TEXT,
    BenchmarkTextOptions,
    DistillationOptions,
    ForceOptions,
    RunOptions,
    SentenceOptions,
)
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import get_recipe, given_flags
from kdkit.cli.parser import option
from kdkit.cli.resolving import distill_settings, pretrain_settings
from kdkit.cli.task_data import names_a_table, table_flags
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.models import PRESETS
from kdkit.recipes.ablations import SearchStep, get_search
from kdkit.reporting import plot_values
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.sweep import (
    Axis,
    find_field,
    run_sweep,
    validate_axes,
    yardstick,
)
from kdkit.settings import override, parse_value


@dataclasses.dataclass
class Options(
    DistillationOptions,
    BenchmarkTextOptions,
    SentenceOptions,
    ForceOptions,
    RunOptions,
):
    """search"""

    over: list[str] | None = option(
        "a setting and the values to try",
        metavar="FIELD=V1,V2",
        assignments=True,
    )
    paper: bool = option(
        "instead of --over: the search that the recipe's paper describes",
        default=False,
    )
    random: int | None = option(
        "try N different choices, drawn at random with --seed. Defaults to "
        "all combinations."
    )
    stage: str | None = option(
        "for a recipe on text alone: the stage to run. As in kdkit pretrain "
        "--stage. With --paper, defaults to the last.",
        pages=TEXT,
    )
    curves: str | None = option(
        "also plot the metric over one setting's values",
        metavar="FILE.svg",
    )
    strategy: str | None = ONE_MACHINE
    model: str = "bert"
    control: bool = False
    encoder: None = None


def run(options):
    sweep(options)


# Options of kdkit distill that runs on text alone do not have.
FOR_TASKS = (
    "data_dir", "teacher_weights", "num_layers", "pretrained", "word_vectors",
    "general", "unlabeled", "unlabeled_columns", "unlabeled_per_labeled",
    "augment", "augment_model", "augment_vectors", "stages",
)  # fmt: skip


def sweep(options) -> None:
    """Runs the steps of a search."""
    steps = _steps(options)
    for step in steps:
        settings, axes = _resolved(options, step, {})
        load_tensorflow()
        validate_axes(settings, axes)
        yardstick(settings)
        if options.curves:
            _require_drawable(axes)
    fixed = {}
    found = []
    for number, step in enumerate(steps, start=1):
        settings, axes = _resolved(options, step, fixed)
        directory = pathlib.Path(options.run_dir)
        if len(steps) > 1:
            directory /= f"step_{number}_{step.recipe}"
        trials = run_sweep(
            settings,
            axes,
            directory,
            max_trials=options.random,
            force=options.force,
            announce=lambda line: print(f"\n{line}", flush=True),
        )
        measure = yardstick(settings)
        _print_table(step, axes, trials, measure)
        if options.curves:
            _draw(options.curves, step, axes[0], trials, measure)
        best = trials[0]
        for name in step.fixes:
            fixed[name] = best.values[find_field(settings, name)]
        found.append(
            {
                "recipe": step.recipe,
                "trials": len(trials),
                "best": best.values,
                "metric": best.metric,
                "run": str(best.path),
            }
        )
    print(json.dumps({"steps": found}))


def _resolved(options, step, fixed):
    """A step's settings and axes, with the values fixed by earlier steps."""
    options = argparse.Namespace(**{**vars(options), "recipe": step.recipe})
    settings = (
        _settings_on_text(options)
        if options.task is None
        and not names_a_table(options)
        and (options.corpus or options.pairs)
        else _settings_on_task(options)
    )
    settings = override(
        settings,
        [
            f"{find_field(settings, name)}={json.dumps(value)}"
            for name, value in fixed.items()
        ],
    )
    axes = tuple(
        Axis(find_field(settings, name), values)
        for name, values in step.over.items()
    )
    return settings, axes


def _settings_on_task(options):
    given = given_flags(options, ("one_document", "detokenizer", "stage"))
    if given:
        raise UsageError(
            f"{' and '.join(given)} is for models on running text alone. "
            "Received: --task. Remove one of them."
        )
    return distill_settings(options)


def _settings_on_text(options):
    given = [*given_flags(options, FOR_TASKS), *table_flags(options)]
    if given:
        raise UsageError(
            f"{', '.join(given)} needs --task. Received: none, which means "
            "runs on running text alone."
        )
    teachers = options.teacher or ()
    if len(teachers) != 1:
        raise UsageError(
            "Runs on running text need one --teacher. "
            f"Received: {' '.join(teachers) or 'none'}."
        )
    # kdkit distill has one option for presets and checkpoints; pretrain has
    # two.
    student = options.student
    is_preset = student is None or student in PRESETS
    return pretrain_settings(
        argparse.Namespace(
            **{
                **vars(options),
                "teacher": teachers[0],
                "student": student if is_preset else None,
                "model": None if is_preset else student,
                "tokenizer": None,
                "vocabulary_size": None,
            }
        )
    )


def _require_drawable(axes):
    """Requires one setting with numbers, for the x axis."""
    fields = [axis.field for axis in axes]
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for axis in axes
        for value in axis.values
    )
    if len(axes) != 1 or not numbers:
        raise UsageError(
            "--curves plots a metric over the numbers of one setting. "
            f"Received: {', '.join(fields)}."
        )


def _draw(file, step, axis, trials, measure):
    curve = sorted(
        (trial.values[axis.field], [trial.metric]) for trial in trials
    )
    task = "" if measure.what == "text" else f", {measure.what}"
    picture = plot_values(
        {step.recipe: curve},
        measure.metric,
        f" on {measure.where}{task}",
        axis.field,
    )
    write_text(pathlib.Path(file), picture)
    print(f"Written: {file}")


def _steps(options):
    get_recipe(options.recipe)
    if options.random is not None and options.random < 1:
        raise UsageError(
            f"--random: expected a number above 0. Received: {options.random}."
        )
    if options.paper == (options.over is not None):
        raise UsageError(
            "Expected one of --over FIELD=V1,V2 and --paper. "
            f"Received: {'both' if options.paper else 'neither'}."
        )
    if options.paper:
        return get_search(options.recipe)
    over = {}
    for text in options.over:
        name, separator, values = text.partition("=")
        if not separator or not values:
            raise UsageError(
                f"--over: expected FIELD=V1,V2. Received: {text!r}."
            )
        if name in over:
            raise UsageError(f"--over: {name!r} is given twice.")
        over[name] = tuple(map(parse_value, split_values(values)))
    return (SearchStep(options.recipe, over),)


def split_values(text: str) -> list[str]:
    """Splits a text at commas outside of brackets and quotes."""
    parts, depth, is_quoted = [""], 0, False
    for character in text:
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not (depth or is_quoted):
            parts.append("")
        else:
            parts[-1] += character
    # If brackets or quotes do not match, the text is not JSON.
    return text.split(",") if depth or is_quoted else parts


def _print_table(step, axes, trials, measure):
    shown = metric_format(measure.metric)
    first, *fields = [axis.field for axis in axes]
    rows = [
        Row(
            json.dumps(trial.values[first]),
            (
                *(json.dumps(trial.values[field]) for field in fields),
                shown.number(trial.metric),
                trial.path.name,
            ),
        )
        for trial in trials
    ]
    columns = (
        *(Column(field, is_text=True) for field in fields),
        Column(shown.heading(f" on {measure.where}")),
        Column("run", is_text=True),
    )
    title = f"{step.recipe} on {measure.what}, best first"
    Console().print(Table(first, columns, tuple(rows), title).terminal())
