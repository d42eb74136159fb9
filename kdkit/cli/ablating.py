"""The work of `kdkit ablate`: arms, seeds, one table."""

import dataclasses
import json
import pathlib
import statistics

from rich.console import Console
from rich.table import Table

from kdkit.cli.choosing import student_settings
from kdkit.cli.resolving import distill_settings
from kdkit.cli.resolving import get_recipe
from kdkit.recipes.ablations import get_ablation
from kdkit.tasks import get_task
from kdkit.training import distill
from kdkit.training.run_directory import RunDirectory


def run_ablation(options) -> None:
    """Runs every arm with every seed, and prints the table.

    Args:
        options: the parsed options of `kdkit ablate`.

    Raises:
        UsageError: if the recipe has no such arms or a setting is wrong,
            before anything is run.
    """
    ablation = get_ablation(options.recipe, options.over)
    settings = distill_settings(options)
    # All of them first, so that a mistake in one is told before the others run.
    arms = []
    for arm in ablation.arms:
        missing = [part for part in arm.without if not vars(options)[part]]
        if missing:
            print(
                f"{arm.name}: left out, since there is no --"
                f"{' and no --'.join(missing)} to do without.",
                flush=True,
            )
            continue
        without = _without(options, settings, arm.without)
        arms.append(
            (
                arm,
                [
                    dataclasses.replace(
                        without, stages=arm.change(without.stages), seed=seed
                    )
                    for seed in dict.fromkeys(options.seeds)
                ],
            )
        )
    task = get_task(settings.data.task)
    rows = []
    for arm, seeds in arms:
        values = []
        for seeded in seeds:
            path = pathlib.Path(
                options.run_dir, arm.name, f"seed_{seeded.seed}"
            )
            print(f"\n{arm.name}, seed {seeded.seed}: {path}", flush=True)
            distill(seeded, path)
            values.append(_best(path, task.primary_metric))
        rows.append(
            {
                "arm": arm.name,
                "values": values,
                "mean": statistics.fmean(values),
                "standard_deviation": (
                    statistics.stdev(values) if len(values) > 1 else None
                ),
                "paper": arm.paper.get(task.name),
            }
        )
    _print_table(options, ablation, task, rows)
    print(
        json.dumps(
            {
                "recipe": options.recipe,
                "over": options.over,
                "task": task.name,
                "metric": task.primary_metric,
                "arms": rows,
            }
        )
    )


def _without(options, settings, parts):
    """The settings of an arm that does without what comes before the stages."""
    if "augment" in parts:
        settings = dataclasses.replace(settings, augmented=None)
    if "general" in parts:
        student = student_settings(options, get_recipe(options.recipe))
        settings = dataclasses.replace(settings, student=student, general=None)
    return settings


def _best(path, metric):
    """The student's metric on dev, of a finished run."""
    (finished,) = RunDirectory(path).events("run_finished")
    return finished["best"]["student"]["metrics"][metric]


def _print_table(options, ablation, task, rows):
    table = Table(
        "arm",
        f"{task.primary_metric} on dev, %",
        "seeds",
        "paper, %",
        title=f"{options.recipe} over {options.over} on {task.name}",
        caption=f"Paper: {ablation.source}.",
    )
    for row in rows:
        spread = row["standard_deviation"]
        measured = f"{100 * row['mean']:.1f}"
        if spread is not None:
            measured += f" ± {100 * spread:.1f}"
        paper = row["paper"]
        table.add_row(
            row["arm"],
            measured,
            str(len(row["values"])),
            "not printed" if paper is None else f"{paper:.1f}",
        )
    Console().print(table)
