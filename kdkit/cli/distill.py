"""Trains a student from a fine-tuned teacher by a recipe.

The student is left in RUN/student/, a keras-hub preset directory. The same
command goes on with a run that was stopped.

example:
  kdkit distill tinybert --task sst2 --data-dir glue \\
      --teacher runs/teacher --control --run-dir runs/tinybert
  kdkit distill lightpaff --task sst2 --data-dir glue --corpus wiki.txt \\
      --encoder bert_base_en_uncased --run-dir runs/lightpaff
  kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \\
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \\
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb \\
      --run-dir runs/lightpaff_gpt2
  kdkit distill lightpaff --model mass --decoder mass_6_layer \\
      --vocabulary-size 32000 --corpus train.en train.de --languages en de \\
      --pairs train.en train.de --task-held-out val.en val.de \\
      --run-dir runs/lightpaff_en_de
  kdkit distill --config runs/tinybert/config.json --run-dir runs/again
"""

import dataclasses
import pathlib

from kdkit import training
from kdkit.cli.groups import DecoderOptions
from kdkit.cli.groups import DistillationOptions
from kdkit.cli.groups import ForceOptions
from kdkit.cli.groups import RunOptions
from kdkit.cli.options import for_steps
from kdkit.cli.options import get_recipe
from kdkit.cli.options import given_flags
from kdkit.cli.options import is_on_text
from kdkit.cli.options import located
from kdkit.cli.options import reject_text_options
from kdkit.cli.options import settings_of
from kdkit.cli.options import validate_distillation
from kdkit.cli.parser import changed
from kdkit.cli.resolving import distill_settings
from kdkit.cli.text_steps import Steps
from kdkit.cli.text_steps import distill_on_text
from kdkit.cli.text_steps import made
from kdkit.cli.text_steps import run_steps
from kdkit.doctor import text_examination
from kdkit.errors import UsageError
from kdkit.runs.first_checks import check_first
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.settings import override


@dataclasses.dataclass
class Options(DistillationOptions, DecoderOptions, ForceOptions, RunOptions):
    """options"""

    recipe: str | None = changed(
        DistillationOptions,
        "recipe",
        help="a name in kdkit list, or a file of kdkit init",
        required=False,
        metavar="RECIPE|CONFIG.toml",
        config_file=True,
    )


validate = validate_distillation


def run(options):
    if options.recipe is None:
        complete(options)
    if options.config is not None and is_on_text(options.config):
        reject_text_options(options)
        distill_on_text_again(options)
        return
    if options.model != "bert":
        recipe = get_recipe(options.recipe)
        distill_on_text(recipe, for_steps(options))
        return
    settings = distill_settings(options)
    check_first(settings, options.run_dir)
    training.distill(settings, options.run_dir, options.force)


OVERRULED = (
    "recipe", "task", "data_dir", "teacher", "student", "pretrained", "corpus",
    "column", "held_out", "general", "mixed_precision", "strategy",
)  # fmt: skip


def complete(options) -> None:
    """Takes the recipe from `--config` where none is named.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`;
            gets the recipe.

    Raises:
        UsageError: if there is no `--config`, or it is of another verb.
    """
    if options.config is None:
        validate_distillation(options)
    if not is_on_text(options.config):
        options.recipe = settings_of(DistillSettings, options.config).recipe


def distill_on_text_again(options) -> None:
    """Makes all steps of a recipe again, in and beside another run directory.

    Args:
        options: the parsed options of `kdkit distill`, with `config`.

    Raises:
        UsageError: for the user's mistakes.
        RunError: if a run would be ruined, or a loss is not finite.
    """
    steps = repeated_steps(options)
    findings = text_examination.examine_first(
        text_steps(steps, options.run_dir), options.force
    )
    run_steps(steps, options.run_dir, findings)


def text_steps(steps: Steps, run_dir) -> "text_examination.TextSteps":
    """Returns steps as the doctor takes them.

    Args:
        steps: `Steps`.
        run_dir: string or path of the last one's run directory.
    """
    return text_examination.TextSteps(
        steps.runs(), _given(steps), pathlib.Path(run_dir)
    )


def repeated_steps(options) -> Steps:
    """The steps of a run, with `--seed` and `--set` applied.

    Args:
        options: the parsed options of `kdkit distill` or `kdkit doctor`, with
            `config`.

    Raises:
        UsageError: for options that clash, and if a setting is unknown or of
            the wrong type.
    """
    given = given_flags(options, OVERRULED)
    if given:
        raise UsageError(
            f"{', '.join(given)} cannot stand beside --config, which decides "
            "that already. Leave it out, or change settings with --set."
        )
    last = settings_of(PretrainSettings, options.config)
    before = last.steps_before
    names = [field.name for field in dataclasses.fields(Steps)]
    steps = {name: before.get(name) for name in names}
    steps["student"] = dataclasses.replace(last, steps_before={})
    if options.seed is not None:  # as the steps of the student have it
        for name in ("general", "student"):
            if steps[name] is not None:
                steps[name] = dataclasses.replace(
                    steps[name], seed=options.seed
                )
    places = {
        name: str(made(located(options.run_dir), name)) for name in before
    }
    for name, model, teacher in (
        ("teacher", "pretrained", None),
        ("general", None, "pretrained"),
        ("student", "general", "teacher"),
    ):
        if steps[name] is not None:
            steps[name] = _moved(
                steps[name], places.get(model), places.get(teacher)
            )
    return override(
        Steps(**steps),
        [
            field if field.split(".")[0] in names else f"student.{field}"
            for field in options.set
        ],
    )


def _given(steps):
    """Where models are that stand for steps, by the step."""
    student, general, teacher = steps.student, steps.general, steps.teacher
    places = {"teacher": student.teacher, "general": student.model.checkpoint}
    if general is not None:
        places["pretrained"] = general.teacher
    elif teacher is not None:
        places["pretrained"] = teacher.model.checkpoint
    return {
        name: place
        for name, place in places.items()
        if place is not None and getattr(steps, name) is None
    }


def _moved(settings, model, teacher):
    """A step whose model and teacher are where they are made this time."""
    if model is not None:
        start = dataclasses.replace(settings.model, checkpoint=model)
        settings = dataclasses.replace(settings, model=start)
    if teacher is not None:
        settings = dataclasses.replace(settings, teacher=teacher)
    return settings
