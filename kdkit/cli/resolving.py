"""From options to settings: defaults, `--config`, `--set`, all checked."""

import dataclasses
import pathlib

from kdkit.cli.options import absolute
from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.models import choose_blocks
from kdkit.models import load_encoder
from kdkit.recipes import RECIPES
from kdkit.recipes import CopiedBlocks
from kdkit.recipes import fine_tuning
from kdkit.recipes import pretraining
from kdkit.recipes import smoke
from kdkit.settings import from_dict
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training.corpus_settings import CorpusSettings
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import read_config
from kdkit.training.run_settings import DataSettings
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import ModelSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.run_settings import model_settings
from kdkit.training.run_settings import same_number_of_updates


def teacher_settings(options) -> TeacherSettings:
    """The settings of `kdkit train-teacher`."""
    _reject_clashes(options, "task", "data_dir", "model")
    if options.config:
        settings = from_dict(TeacherSettings, read_config(options.config))
    elif options.smoke:
        settings = smoke.TEACHER
    else:
        _require(options, "task", "model")
        settings = TeacherSettings(
            data=_data_settings(options),
            model=ModelSettings(checkpoint=absolute(options.model)),
            stages=fine_tuning.STAGES,
        )
    return _finish(settings, options)


def distill_settings(options) -> DistillSettings:
    """The settings of `kdkit distill`."""
    recipe = get_recipe(options.recipe)
    _reject_clashes(
        options, "task", "data_dir", "teacher", "student", "num_layers",
        "pretrained", "corpus", "column", "held_out", "stages",
    )  # fmt: skip
    if options.config:
        settings = from_dict(DistillSettings, read_config(options.config))
        if settings.recipe != recipe.name:
            raise UsageError(
                f"{options.config} holds a run of recipe {settings.recipe!r}. "
                f"Received: {recipe.name!r}."
            )
    elif options.smoke:
        settings = smoke.distillation(recipe, options.parity)
    else:
        _require(options, "task", "teacher")
        stages = _wanted_stages(options, recipe)
        settings = DistillSettings(
            recipe=recipe.name,
            data=_data_settings(options),
            teacher=absolute(options.teacher),
            student=_student_settings(options, recipe),
            stages=stages,
            pretrained=_pretrained_encoder(options, recipe, stages),
            corpus=_corpus_of(options, recipe, stages),
            parity=options.parity,
        )
    settings = _finish(settings, options)
    if options.control and not any(s.objectives for s in settings.stages):
        raise UsageError(
            f"--control is what recipe {recipe.name!r} does: the student on "
            "the labels alone. Leave it out."
        )
    if options.control and not settings.control:
        # After --set, so that the control has as many updates.
        settings = dataclasses.replace(
            settings, control=same_number_of_updates(settings.stages)
        )
    return settings


def pretrain_settings(options) -> PretrainSettings:
    """The settings of `kdkit pretrain`."""
    _reject_clashes(
        options, "corpus", "column", "held_out", "model", "student", "tokenizer"
    )
    if options.config:
        settings = from_dict(PretrainSettings, read_config(options.config))
    elif options.smoke:
        settings = smoke.PRETRAINING
    else:
        _require(options, "corpus")
        settings = PretrainSettings(
            corpus=_corpus_settings(options),
            model=_model_to_pretrain(options),
            stages=pretraining.STAGES,
            tokenizer=absolute(options.tokenizer),
        )
    return _finish(settings, options)


def _model_to_pretrain(options) -> ModelSettings:
    if (options.model is None) == (options.student is None):
        raise UsageError(
            "Expected one of --model, an encoder to go on with, and --student, "
            "a preset to begin with. Received: "
            f"{'both' if options.model else 'neither'}."
        )
    if options.model is not None:
        return ModelSettings(checkpoint=absolute(options.model))
    if options.student not in PRESETS:
        raise UsageError(
            f"--student: expected one of {sorted(PRESETS)}. Received: "
            f"{options.student!r}. Go on with a checkpoint by --model."
        )
    return model_settings(options.student)


def _corpus_settings(options) -> CorpusSettings | None:
    """The corpus that the options name; `None` where they name none."""
    if options.corpus is None:
        beside = [
            f"--{name.replace('_', '-')}"
            for name in ("column", "held_out")
            if getattr(options, name) is not None
        ]
        if beside:
            raise UsageError(
                f"{' and '.join(beside)} needs --corpus. Received: none."
            )
        return None
    return CorpusSettings(
        files=tuple(map(absolute, options.corpus)),
        column=options.column,
        held_out=tuple(map(absolute, options.held_out or ())),
    )


def _wanted_stages(options, recipe):
    """The stages of a recipe, or those of them that the options name."""
    stages = recipe.stages_for(get_task(options.task), options.parity)
    if options.stages is None:
        return stages
    known = [stage.name for stage in stages]
    unknown = [name for name in options.stages if name not in known]
    if unknown:
        raise UsageError(
            f"--stages: recipe {recipe.name!r} has {', '.join(known)}. "
            f"Received: {', '.join(unknown)}."
        )
    return tuple(stage for stage in stages if stage.name in options.stages)


def get_recipe(name):
    """Returns a recipe.

    Raises:
        UsageError: if there is none of this name.
    """
    if name not in RECIPES:
        raise UsageError(
            f"Unknown recipe. Expected one of {sorted(RECIPES)}. Received: "
            f"{name!r}."
        )
    return RECIPES[name]


def _student_settings(options, recipe) -> ModelSettings:
    """The recipe's student, or the one that the options name."""
    if options.student is not None:
        _reject_beside_student(options)
        return model_settings(absolute(options.student))
    if isinstance(recipe.student, CopiedBlocks):
        return _copied_blocks(options, recipe.student)
    settings = model_settings(recipe.student)
    if options.num_layers is not None:
        settings = dataclasses.replace(settings, num_layers=options.num_layers)
    return settings


def _reject_beside_student(options):
    if options.num_layers is not None:
        raise UsageError(
            "--num-layers cannot stand beside --student, which is a whole "
            "model. Leave one of them out."
        )


def _copied_blocks(options, plan) -> ModelSettings:
    """The blocks of the encoder that a plan means, by number."""
    place = absolute(options.teacher)
    if plan.source == "pretrained":
        place = _pretrained_place(options)
    encoder, _ = load_encoder(place, load_weights=False)
    num_copied = options.num_layers
    if num_copied is None:
        num_copied = max(encoder.num_layers // 2, 1)
    return ModelSettings(
        copy_from=plan.source,
        copy_layers=choose_blocks(plan.rule, encoder.num_layers, num_copied),
    )


def _pretrained_place(options):
    return absolute(options.pretrained) or _encoder_behind(
        absolute(options.teacher)
    )


def _pretrained_encoder(options, recipe, stages):
    """Where the pretrained encoder is, if the run has a use for it."""
    copies = options.student is None and isinstance(
        recipe.student, CopiedBlocks
    )
    if (copies and recipe.student.source == "pretrained") or any(
        stage.objectives for stage in stages if stage.data == "corpus"
    ):
        return _pretrained_place(options)
    if options.pretrained is not None:
        raise UsageError(
            f"--pretrained: recipe {recipe.name!r} has no use for it here: the "
            "student does not start from an encoder's blocks. Leave it out."
        )
    return None


def _corpus_of(options, recipe, stages):
    """The corpus of stages that need one."""
    corpus = _corpus_settings(options)
    if any(stage.data == "corpus" for stage in stages):
        if corpus is None:
            names = [stage.name for stage in stages if stage.data == "corpus"]
            raise UsageError(
                f"Recipe {recipe.name!r} needs running text for "
                f"{', '.join(names)}. Pass --corpus FILE, or leave that out "
                "with --stages."
            )
    elif corpus is not None:
        raise UsageError(
            f"--corpus: no stage of recipe {recipe.name!r} here trains on "
            "running text. Leave it out."
        )
    return corpus


def _encoder_behind(teacher):
    """Where the encoder is that a teacher was fine-tuned from."""
    model = {}
    if pathlib.Path(teacher, CONFIG).is_file():
        model = read_config(teacher).get("model", {})
    place = model.get("checkpoint")
    if place is None:
        raise UsageError(
            f"The encoder that {teacher} was fine-tuned from is not known, and "
            "the student starts as its first blocks. Pass --pretrained MODEL."
        )
    return place


def _data_settings(options):
    task = get_task(options.task)
    return DataSettings(
        task=task.name,
        data_dir=absolute(options.data_dir),
        sequence_length=task.sequence_length,
    )


def _reject_clashes(options, *names):
    """Refuses options that --config or --smoke would silently overrule."""
    source = "--config" if options.config else "--smoke"
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(options, name) is not None
    ]
    if options.config and options.smoke:
        given.append("--smoke")
    if given and (options.config or options.smoke):
        raise UsageError(
            f"{', '.join(given)} cannot stand beside {source}, which decides "
            "that already. Leave it out, or change settings with --set."
        )


def _require(options, *names):
    missing = [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(options, name) is None
    ]
    if missing:
        raise UsageError(
            f"Missing: {', '.join(missing)}. Or try it on generated data with "
            "--smoke."
        )


def _finish(settings, options):
    """Applies `--seed` and `--set`."""
    if options.seed is not None:
        settings = dataclasses.replace(settings, seed=options.seed)
    return override(settings, options.set)
