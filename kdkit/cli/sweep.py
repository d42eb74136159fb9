"""Runs a recipe for each choice of some fields, and ranks the runs on dev.

Each choice is a run in DIR/trials/, which kdkit report reads. The same command
continues a stopped sweep. Name a field by its path (stages.NAME.learning_rate)
or by the end of its path. tensorboard --logdir DIR/trials shows the runs'
curves. The last line is a JSON object. A sweep never uses a test split.

With --corpus or --pairs, and without --task, the runs are runs of kdkit
pretrain: a recipe's stages on text, ranked by the perplexity on held-out text.
Fields that decide which tokens are measured, such as masks, the vocabulary or
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
import json
import pathlib

from rich.console import Console

from kdkit.cli.flags import asked
from kdkit.cli.loading import choose_devices, load_tensorflow
from kdkit.cli.runs import RUN
from kdkit.cli.verb_flags import TASK, flag, many, switch
from kdkit.config.layers import config_of
from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.recipes import RECIPES
from kdkit.recipes.ablations import SearchStep, get_search
from kdkit.reporting import plot_values
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs import sweep
from kdkit.settings import parse_value

FLAGS = {
    **RUN,
    "over": many("a field and the values to try", metavar="FIELD=V1,V2"),
    "paper": switch(
        "instead of --over: the search that the recipe's paper describes"
    ),
    "random": flag(
        "try N different choices, drawn at random with --seed. Defaults to "
        "all combinations.",
        type=int,
        metavar="N",
    ),
    "curves": flag(
        "also plot the metric over one field's values", metavar="FILE.svg"
    ),
}


def run(words):
    """Runs the steps of a search."""
    over, words = _taken_over(words)
    recipe, is_on_text = next(iter(words), ""), _is_on_text(words)
    about = "text" if is_on_text else None
    words = words[is_on_text:]
    request = asked("sweep", __doc__, words, FLAGS, about, ("run_dir",))
    options, tree = request.options, request.tree
    if is_on_text:
        tree["kind"] = "text"
        if options.paper:
            tree.setdefault("stage", "fine_tuning")
    steps = _steps(recipe, over, options)

    def resolved(step, fixed):
        """A step's config and axes, with the values of earlier steps."""
        given = copy.deepcopy(tree)
        config = request.config(
            lambda _: config_of(step.recipe, given, options.smoke)
        )
        found = {sweep.find_field(config, name): fixed[name] for name in fixed}
        axes = tuple(
            sweep.Axis(sweep.find_field(config, name), values)
            for name, values in step.over.items()
        )
        return sweep.with_values(config, found), axes

    for step in steps:
        config, axes = resolved(step, {})
        sweep.validate_axes(config, axes)
        if options.curves and len(axes) > 1:
            raise UsageError("--curves draws one field.")
    choose_devices(config.training.strategy, options.devices, recipe)
    load_tensorflow()
    fixed, results = {}, []
    for number, step in enumerate(steps, start=1):
        config, axes = resolved(step, fixed)
        directory = pathlib.Path(options.run_dir)
        if len(steps) > 1:
            directory /= f"step_{number}_{step.recipe}"
        trials = sweep.run_sweep(
            config,
            axes,
            directory,
            max_trials=options.random,
            force=options.force,
            announce=lambda line: print(f"\n{line}", flush=True),
        )
        measure = sweep.yardstick(config)
        _print_table(step, axes, trials, measure)
        if options.curves:
            _draw(options.curves, step, axes[0], trials, measure)
        best = trials[0]
        for name in step.fixes:
            fixed[name] = best.values[sweep.find_field(config, name)]
        results.append(
            {
                "recipe": step.recipe,
                "trials": len(trials),
                "best": best.values,
                "metric": best.metric,
                "run": str(best.path),
            }
        )
    print(json.dumps({"steps": results}))


def _taken_over(words):
    """The values of --over, which look like fields, and the other words."""
    if "--over" not in words:
        return [], words
    begin = words.index("--over")
    end = begin + 1
    while end < len(words) and not words[end].startswith("--"):
        end += 1
    return words[begin + 1 : end], [*words[:begin], *words[end:]]


def _is_on_text(words) -> bool:
    """Whether a sweep is of runs on running text, without a task."""
    flags = {word.partition("=")[0] for word in words if word[:2] == "--"}
    names = {name[2:].replace("-", "_") for name in flags}
    return bool(names & {"corpus", "pairs"}) and names.isdisjoint(TASK)


def _steps(recipe, over, options):
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    if options.paper:
        if over:
            raise UsageError("--over is not read beside --paper.")
        return get_search(recipe)
    if not over:
        raise UsageError("Missing: --over.")
    values = {}
    for text in over:
        name, _, some = text.partition("=")
        values[name] = tuple(map(parse_value, split_values(some)))
    return (SearchStep(recipe, values),)


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
