"""The work of `kdkit ablate` on text alone: chains of runs that share steps."""

import argparse
import dataclasses
import pathlib

from kdkit import training
from kdkit.cli.ablation_tables import best_metrics
from kdkit.cli.ablation_tables import place_of_arm
from kdkit.cli.ablation_tables import row_of_arm
from kdkit.cli.ablation_tables import show_arms
from kdkit.cli.ablation_tables import written_metrics
from kdkit.cli.decoder_steps import decoder_steps
from kdkit.cli.resolving import get_recipe
from kdkit.cli.step_checks import check_steps
from kdkit.cli.step_checks import given_models
from kdkit.cli.text_steps import made
from kdkit.errors import UsageError
from kdkit.recipes.ablations import get_ablation
from kdkit.reporting.results import TEXT_METRICS
from kdkit.training import text_examination
from kdkit.training.model_settings import ModelSettings
from kdkit.training.run_settings import PretrainSettings

PRETRAINING, FINE_TUNING = "pretraining", "fine_tuning"


@dataclasses.dataclass(frozen=True)
class Chain:
    """The runs of the student, of one arm and seed.

    Args:
        general: `PretrainSettings` or `None`. The student on general text.
        kind: string or `None`. `"kd"` or `"labels"`: what it learns from
            there. Arms of the same seed and kind have that run in common.
        student: `PretrainSettings`. It goes on with the task's text; its model
            is where the run before will be.
    """

    general: PretrainSettings | None
    kind: str | None
    student: PretrainSettings


def run_text_ablation(options) -> None:
    """Runs every arm with every seed, and prints the table.

    The teachers are made once, in DIR/pretrained_run and, where an arm learns
    from it, DIR/teacher_run, and what an arm's student learns from general
    text in DIR/general_kd/seed_N or DIR/general_labels/seed_N.

    Args:
        options: the parsed options of `kdkit ablate` with `--model`.

    Raises:
        UsageError: if the recipe has no such arms or a setting is wrong,
            before anything is run.
    """
    ablation = get_ablation(options.recipe, options.over, options.arms)
    if options.over != "stages" or options.general is not None:
        raise UsageError(
            f"--model {options.model}: the arms are over stages, and what the "
            "student learns in pretraining differs between them. Received: "
            f"--over {options.over}, --general {options.general}."
        )
    recipe = get_recipe(options.recipe)
    seeds = dict.fromkeys(options.seeds)
    steps = {
        seed: decoder_steps(
            recipe, argparse.Namespace(**{**vars(options), "seed": seed})
        )
        for seed in seeds
    }
    first = next(iter(steps.values())).runs()
    check_steps(first, options)
    arms = [
        (arm, {seed: chain(arm, steps[seed], options) for seed in seeds})
        for arm in ablation.arms
    ]
    findings = text_examination.examine_first(
        text_examination.TextSteps(
            first, given_models(options), pathlib.Path(options.run_dir)
        ),
        options.force,
    )
    teaches_task = any(
        of_seed.student.teacher is not None
        for _, chains in arms
        for of_seed in chains.values()
    )
    for name in ("pretrained", "teacher") if teaches_task else ("pretrained",):
        if name in first:
            training.pretrain(
                first[name], made(options.run_dir, name), findings
            )
    rows, signature = [], None
    for arm, chains in arms:
        paths = [
            _run(arm, seed, of_seed, options, findings)
            for seed, of_seed in chains.items()
        ]
        if options.model == "mass":
            measured = [written_metrics(path) for path in paths]
            metric = "bleu"
            signature = measured[0]["signatures"][metric]
            found = [of_seed["metrics"] for of_seed in measured]
        else:
            found = [best_metrics(path) for path in paths]
            metric = next(name for name in TEXT_METRICS if name in found[0])
        values = [metrics[metric] for metrics in found]
        rows.append(row_of_arm(arm, values, options.model))
    show_arms(
        options, ablation, {"model": options.model}, metric, rows, signature
    )


def chain(arm, steps, options) -> Chain:
    """Returns the runs of an arm.

    Args:
        arm: `AblationArm`.
        steps: `Steps` of the whole recipe, with one seed.
        options: the parsed options of `kdkit ablate`.
    """
    stages = {
        stage.name: stage
        for stage in arm.change((*steps.general.stages, *steps.student.stages))
    }
    begun = steps.general
    general = kind = None
    model = begun.model
    if PRETRAINING in stages:
        stage = stages[PRETRAINING]
        kind = "kd" if stage.objectives else "labels"
        general = _learning(begun, stage, model, begun.teacher)
        place = _general_place(options, kind, begun.seed)
        model = ModelSettings(checkpoint=str(place))
    student = _learning(
        steps.student, stages[FINE_TUNING], model, begun.teacher
    )
    return Chain(general, kind, student)


def _learning(settings, stage, model, pretrained):
    """The settings with a stage; without its teacher where it has no use."""
    changes = {"stages": (stage,), "model": model}
    if not stage.objectives:
        changes |= {"teacher": None, "recipe": None, "cache": None}
        if model.has_random_weights:
            changes["tokenizer"] = pretrained
    return dataclasses.replace(settings, **changes)


def _general_place(options, kind, seed):
    return pathlib.Path(
        options.run_dir, f"general_{kind}", f"seed_{seed}"
    ).absolute()


def _run(arm, seed, of_seed, options, findings):
    """Runs what is not done yet of an arm; returns its run directory."""
    if of_seed.general is not None:
        place = _general_place(options, of_seed.kind, seed)
        training.pretrain(of_seed.general, place, findings)
    path = place_of_arm(options, arm.name, seed)
    training.pretrain(of_seed.student, path, findings)
    return path
