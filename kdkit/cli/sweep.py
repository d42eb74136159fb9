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

import copy
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
    PretrainedModelOptions,
    RunOptions,
    SentenceOptions,
)
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import get_recipe, reject_given, require
from kdkit.cli.parser import names_in, option
from kdkit.cli.resolving import distill_settings, pretrain_settings
from kdkit.cli.task_data import names_a_table
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


def sweep(options) -> None:
    """Runs the steps of a search."""
    steps = _steps(options)
    for step in steps:
        settings, axes = _resolved(options, step, {})
        load_tensorflow()
        validate_axes(settings, axes)
        yardstick(settings)
        if options.curves and len(axes) > 1:
            raise UsageError("--curves draws one setting.")
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


ON_TEXT = "by runs on running text, without --task"


def _resolved(options, step, fixed):
    """A step's settings and axes, with the values fixed by earlier steps."""
    options = _changed(options, recipe=step.recipe)
    settings = (
        _settings_on_text(options)
        if options.task is None
        and not names_a_table(options)
        and (options.corpus or options.pairs)
        else distill_settings(options)
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


def _settings_on_text(options):
    read = {*names_in(PretrainedModelOptions), "corpus", "column", "held_out"}
    names = {*names_in(*DistillationOptions.__mro__[1:-1])} - read
    reject_given(options, sorted(names - {"cache", "cache_precision"}), ON_TEXT)
    require(options, "teacher")
    (teacher,) = options.teacher
    # kdkit distill has one option for presets and checkpoints; pretrain has
    # two.
    student = options.student
    is_preset = student is None or student in PRESETS
    return pretrain_settings(
        _changed(
            options,
            teacher=teacher,
            student=student if is_preset else None,
            model=None if is_preset else student,
            tokenizer=None,
            vocabulary_size=None,
        )
    )


def _changed(options, **values):
    """A copy of options with other values."""
    options = copy.copy(options)
    vars(options).update(values)
    return options


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
    if options.paper:
        reject_given(options, ("over",), "beside --paper")
        return get_search(options.recipe)
    require(options, "over")
    over = {}
    for text in options.over:
        name, _, values = text.partition("=")
        if name in over:
            raise UsageError(f"--over names {name!r} twice.")
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
