"""The work of `kdkit sweep`: axes from options, steps, one table each."""

import argparse
import json
import pathlib

from rich.console import Console
from rich.table import Table

from kdkit.cli.resolving import distill_settings
from kdkit.cli.resolving import get_recipe
from kdkit.errors import UsageError
from kdkit.recipes.searches import SearchStep
from kdkit.recipes.searches import get_search
from kdkit.settings import override
from kdkit.training.sweep import Axis
from kdkit.training.sweep import check_axes
from kdkit.training.sweep import find_field
from kdkit.training.sweep import run_sweep


def sweep(options) -> None:
    """Runs the steps of a search, each with what the earlier ones fixed.

    Args:
        options: the parsed options of `kdkit sweep`.

    Raises:
        UsageError: for the user's mistakes.
    """
    steps = _steps(options)
    for step in steps:
        check_axes(*_resolved(options, step, {}))
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
            announce=lambda line: print(f"\n{line}", flush=True),
        )
        _print_table(step, axes, trials, settings.data.task)
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
    """The settings of a step and its axes, with what earlier steps fixed."""
    settings = distill_settings(
        argparse.Namespace(**{**vars(options), "recipe": step.recipe})
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


def _steps(options):
    get_recipe(options.recipe)
    if options.random is not None and options.random < 1:
        raise UsageError(
            f"--random: expected a number above 0. Received: {options.random}."
        )
    if options.paper == (options.over is not None):
        raise UsageError(
            "Expected one of --over, settings and their values, and --paper. "
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
        over[name] = tuple(map(_parse, values.split(",")))
    return (SearchStep(options.recipe, over),)


def _parse(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _print_table(step, axes, trials, task):
    table = Table(
        *(axis.field for axis in axes),
        "dev, %",
        "run",
        title=f"{step.recipe} on {task}, best first",
    )
    for trial in trials:
        table.add_row(
            *(json.dumps(trial.values[axis.field]) for axis in axes),
            f"{100 * trial.metric:.2f}",
            trial.path.name,
        )
    Console().print(table)
