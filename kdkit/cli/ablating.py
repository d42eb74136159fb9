"""The work of `kdkit ablate` on a task: arms and seeds, a run each."""

import dataclasses
import pathlib

from kdkit import training
from kdkit.cli.ablation_tables import best_metrics
from kdkit.cli.ablation_tables import num_examples
from kdkit.cli.ablation_tables import place_of_arm
from kdkit.cli.ablation_tables import row_of_arm
from kdkit.cli.ablation_tables import show_arms
from kdkit.cli.resolving import distill_settings
from kdkit.errors import UsageError
from kdkit.recipes.ablations import get_ablation
from kdkit.settings import from_dict
from kdkit.tasks import get_task
from kdkit.training import ModelSettings
from kdkit.training.first_checks import check_sources
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import read_config
from kdkit.training.stages import check_objectives
from kdkit.training.strategies import check_one_process


def run_ablation(options) -> None:
    """Runs every arm with every seed, and prints the table.

    Args:
        options: the parsed options of `kdkit ablate`.

    Raises:
        UsageError: if the recipe has no such arms or a setting is wrong,
            before anything is run.
    """
    ablation = get_ablation(options.recipe, options.over, options.arms)
    settings = distill_settings(options)
    check_one_process(settings)
    if not pathlib.Path(options.run_dir).exists():
        check_sources(settings)
    # All of them first, so that a mistake in one is told before the others run.
    arms = []
    for arm in ablation.arms:
        changed = _settings_of(arm, settings)
        if changed is None:
            print(
                f"{arm.name}: left out, since the other arms do without it "
                "too. Pass --general and --augment for it.",
                flush=True,
            )
            continue
        seeds = dict.fromkeys(options.seeds)
        arms.append(
            (arm, [dataclasses.replace(changed, seed=seed) for seed in seeds])
        )
    if not arms:
        raise UsageError(
            "Nothing is left to run: each of the arms does without what is "
            "not given. Pass --general and --augment, or name other --arms."
        )
    check_objectives([of_arm for _, of_arm in arms])
    task = get_task(settings.data.task)
    rows, examples = [], None
    for arm, seeds in arms:
        values = []
        for seeded in seeds:
            path = place_of_arm(options, arm.name, seeded.seed)
            training.distill(seeded, path, options.force, needs_models=False)
            values.append(best_metrics(path)[task.primary_metric])
            examples = examples or num_examples(path)
        rows.append(row_of_arm(arm, values, task.name))
    show_arms(
        options,
        ablation,
        {"task": task.name},
        task.primary_metric,
        rows,
        examples=examples,
    )


def _settings_of(arm, settings):
    """The settings of an arm; `None` if it leaves out what is not there."""
    changes = {"stages": arm.change(settings.stages)}
    if "augment" in arm.without:
        if settings.augmented is None:
            return None
        changes["augmented"] = None
    if "general" in arm.without:
        model = _general_model(settings)
        if model is None:
            return None
        changes |= {"student": model, "general": None}
    if not any(
        stage.objectives for stage in changes["stages"] if stage.data == "task"
    ):
        # What only a teacher on the task has a use for.
        changes |= {
            "cache": None,
            "unlabeled": None,
            "more_teachers": (),
            "teacher_weights": (),
        }
    return dataclasses.replace(settings, **changes)


def _general_model(settings):
    """The sizes of the student that general distillation made, if it did."""
    if settings.general is not None:
        return settings.general.model
    place = settings.student.checkpoint
    if place is None or not pathlib.Path(place, CONFIG).is_file():
        return None
    config = read_config(place)
    if config.get("verb") != "pretrain" or config.get("teacher") is None:
        return None
    return from_dict(ModelSettings, config["model"])
