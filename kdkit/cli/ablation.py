"""The config of each arm of an ablation, from that of the whole recipe."""

import pathlib

from kdkit.config.model import Checkpoint
from kdkit.recipes import pretraining
from kdkit.runs.build import with_enough_updates
from kdkit.runs.directory import CONFIG, Run
from kdkit.runs.events import Evaluation
from kdkit.runs.steps import with_shared_steps
from kdkit.training.tasks import open_task

PRETRAINING, FINE_TUNING = "pretraining", "fine_tuning"


def arm_configs(arms, config, folder: pathlib.Path) -> list:
    """Returns the configs of arms, which share the runs before them.

    Args:
        arms: list of `kdkit.recipes.ablations.AblationArm`.
        config: `TaskConfig` or `TextConfig` of the whole recipe.
        folder: absolute path of the ablation.

    Returns:
        A list with a config for each arm; `None` for an arm that removes a
        part that is not there.
    """
    config = with_shared_steps(config, folder)
    if config.kind == "text":
        return [_on_text(arm, config, folder) for arm in arms]
    train = open_task(config.data).load("train", config.data.data_dir)
    count = min(len(train), config.data.max_train_rows or len(train))
    # Arms that join stages have the updates of all of them.
    config = config.replace(stages=with_enough_updates(config, count))
    return [_on_task(arm, config) for arm in arms]


def _on_task(arm, config):
    """An arm of a run on a task."""
    steps = dict(config.steps)
    changes = {"stages": arm.change(config.stages), "steps": steps}
    if "augment" in arm.without:
        if config.augmented is None:
            return None
        changes["augmented"] = None
        for name, step in config.steps.items():
            if step.kind == "augmentation":
                del steps[name]
    if "general" in arm.without:
        changes["student"] = _general_student(config)
        if changes["student"] is None:
            return None
        steps.pop("general", None)
    on_task = [one for one in changes["stages"] if one.data == "task"]
    if len(on_task) == len(changes["stages"]):
        changes["corpus"] = None
    if not any(stage.objectives for stage in on_task):
        # Fields that only a teacher on the task uses.
        changes |= {"cache": None, "unlabeled": None, "teacher_weights": ()}
        changes["teacher"] = config.teacher[:1]
    return config.replace(**changes)


def _general_student(config):
    """The student before general distillation, if there was one."""
    general = config.steps.get("general")
    place = getattr(config.student, "checkpoint", None)
    if general is None and place and pathlib.Path(place, CONFIG).is_file():
        general = Run(place).config
    if general is None or general.kind != "text" or not general.teachers:
        return None
    if getattr(general.student, "copy_from", None) == "teacher":
        return general.student.replace(copy_from=general.teacher)
    return general.student


def _on_text(arm, config, folder):
    """An arm of the four runs of a recipe on text."""
    steps = dict(config.steps)
    student = config.student
    general = steps.pop("general")
    stages = arm.change((*general.stages, *config.stages))
    stages = {stage.name: stage for stage in stages}
    if PRETRAINING in stages:
        stage = stages[PRETRAINING]
        kind = "kd" if stage.objectives else "labels"
        seed = f"seed_{config.training.seed}"
        place = folder / f"general_{kind}" / seed
        steps["general"] = _learning(
            general, stage, general.student, general.teacher
        ).replace(run_dir=str(place))
    else:
        student = general.student
    stage = stages[FINE_TUNING]
    if not stage.objectives:
        steps.pop("teacher", None)
    config = config.replace(steps=steps)
    return _learning(config, stage, student, general.teacher)


def _learning(config, stage, student, pretrained):
    """The config with a stage, and a teacher only if the stage uses it."""
    changes = {"stages": (stage,), "student": student}
    if not stage.objectives:
        changes |= {"teacher": None, "recipe": pretraining.STAGES[0].name}
        changes["cache"] = None
        if not isinstance(student, Checkpoint):
            changes["tokenizer"] = pretrained
    return config.replace(**changes)


def num_examples(done: Run, split: str) -> int | None:
    """Returns the number of a split's examples that a run was measured on."""
    found = [event.examples for event in done.events(Evaluation, split=split)]
    return next((count for count in reversed(found) if count), None)
