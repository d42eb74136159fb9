"""Converts options to validated settings: defaults, `--config`, `--set`."""

import dataclasses
from collections.abc import Sequence

from kdkit import models
from kdkit.cli.choosing import (
    augmented_settings,
    corpus_settings,
    general_distillation,
    log_start,
    model_to_pretrain,
    pretrained_encoder,
    recipe_on_text,
    stages_corpus,
    student_settings,
    unlabeled_settings,
    wanted_stages,
    with_batches_that_fit,
    with_rows_that_fit,
)
from kdkit.cli.compiling import with_quick_compilation
from kdkit.cli.options import (
    absolute,
    all_assignments,
    cache_settings,
    get_recipe,
    reject_unread,
    require,
    require_same_recipe,
    sentence_settings,
    settings_of,
    trains_encoder_decoder,
    unread,
)
from kdkit.cli.task_data import chosen_data
from kdkit.cli.updates import with_enough_updates
from kdkit.recipes import fine_tuning, pretraining
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.stages import same_number_of_updates
from kdkit.runs import smoke
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.settings import (
    FREE,
    PRETRAINED,
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.settings import override
from kdkit.training.model_settings import UPDATE, ModelSettings
from kdkit.training.tasks import open_task


def teacher_settings(options) -> TeacherSettings:
    """Returns the settings of `kdkit train-teacher`."""
    reject_unread(options, "bert")
    if options.config:
        settings = settings_of(TeacherSettings, options.config)
    elif options.smoke:
        settings = smoke.TEACHER
    else:
        require(options, "model")
        settings = TeacherSettings(
            data=chosen_data(options),
            model=ModelSettings(checkpoint=absolute(options.model)),
            stages=fine_tuning.STAGES,
        )
    return with_options(settings, options)


def distill_settings(options) -> DistillSettings:
    """Returns the settings of `kdkit distill`."""
    reject_unread(options, "bert")
    if options.config:
        settings = settings_of(DistillSettings, options.config)
        require_same_recipe(options, settings)
    recipe = get_recipe(settings.recipe if options.config else options.recipe)
    if options.smoke:
        settings = smoke.distillation(recipe, options.parity)
        added = _quantization(options, recipe, open_task(settings.data))
        settings = dataclasses.replace(
            settings, stages=(*settings.stages, *smoke.short(added))
        )
    elif not options.config:
        require(options, "teacher" if options.encoder is None else "encoder")
        data = chosen_data(options)
        task = open_task(data)
        stages = wanted_stages(options, recipe, task)
        stages += _quantization(options, recipe, task)
        if options.general is None:
            student, general = student_settings(options, recipe), None
            pretrained = pretrained_encoder(options, recipe, stages, student)
            corpus = stages_corpus(options, recipe, stages)
        else:
            student, general = general_distillation(options, recipe)
            pretrained = corpus = None
        if options.encoder is None:
            teacher, *more_teachers = map(absolute, options.teacher)
        else:
            teacher, made_from = teachers_of_encoder(
                options, data, stages, corpus
            )
            pretrained = pretrained and made_from
            more_teachers = ()
        settings = DistillSettings(
            recipe=recipe.name,
            data=data,
            teacher=teacher,
            student=student,
            stages=stages,
            pretrained=pretrained,
            corpus=corpus,
            unlabeled=unlabeled_settings(options),
            augmented=augmented_settings(options, data),
            general=general,
            more_teachers=tuple(more_teachers),
            teacher_weights=tuple(options.teacher_weights or ()),
            parity=options.parity,
        )
    assignments = all_assignments(settings, options)
    of_control, others = _split_control(settings, options, assignments)
    settings = with_options(settings, options, others)
    if of_control is not None:
        # After --set, so that the control has the same number of updates.
        control = same_number_of_updates(settings.stages)
        settings = override(
            dataclasses.replace(settings, control=control), of_control
        )
    if not options.config:
        settings = with_batches_that_fit(settings, assignments)
    if options.encoder is not None:
        # The run's settings also apply to the teachers that it trains first.
        settings = override(with_same_settings(settings), assignments)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    if not (options.config or options.smoke):
        log_start(settings, recipe)
    return settings


def _quantization(options, recipe, task):
    """The stage that `--quantize` adds, or an empty tuple."""
    precision = getattr(options, "quantize", None)
    if precision is None:
        return ()
    stages = recipe.stages_for(task, options.parity)
    return (quantization_stage(precision, task, stages),)


def _split_control(settings, options, assignments):
    """Splits the assignments to a control that follows the stages off."""
    of_control = [one for one in assignments if one.startswith("control.")]
    follows = settings.control == same_number_of_updates(settings.stages)
    if follows or (options.control and not settings.control):
        others = [one for one in assignments if one not in of_control]
        return of_control, others
    return None, assignments


def pretrain_settings(options) -> PretrainSettings:
    """Returns the settings of `kdkit pretrain`."""
    of_sentences = trains_encoder_decoder(options)
    reject_unread(options, *(["mass"] if of_sentences else ["bert", "gpt2"]))
    if options.config:
        settings = settings_of(PretrainSettings, options.config)
    elif options.smoke:
        settings = smoke.PRETRAINING
    else:
        recipe, stages = None, pretraining.STAGES
        if options.pairs is None:
            require(options, "corpus")
        if of_sentences:
            stages = pretraining.FROM_SCRATCH
            if options.pairs is not None:
                stages = pretraining.PAIRS
        if options.teacher is not None:
            require(options, "recipe")
        if options.recipe is not None:
            require(options, "teacher")
            recipe, stages = recipe_on_text(get_recipe(options.recipe), options)
        settings = PretrainSettings(
            corpus=sentence_settings(options)
            if of_sentences
            else corpus_settings(options, recipe),
            model=model_to_pretrain(options, recipe),
            stages=stages,
            tokenizer=absolute(options.tokenizer),
            vocabulary_size=options.vocabulary_size,
            teacher=absolute(options.teacher),
            recipe=options.recipe,
            # Batches of sentences have many shapes.
            jit_compile=UPDATE if of_sentences else True,
        )
    assignments = all_assignments(settings, options)
    settings = with_options(settings, options, assignments)
    if not (options.config or options.smoke):
        settings = with_rows_that_fit(settings, assignments)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    return settings


def with_options(settings, options, assignments=None):
    """Applies `--seed`, `--mixed-precision`, `--strategy` and `--set`."""
    if assignments is None:
        assignments = all_assignments(settings, options)
    if options.seed is not None:
        settings = dataclasses.replace(settings, seed=options.seed)
    if options.mixed_precision is not None:
        settings = dataclasses.replace(
            settings, dtype_policy=f"mixed_{options.mixed_precision}"
        )
    if options.strategy is not None:
        settings = with_strategy(settings, options.strategy)
    reject_unused_sizes(settings, assignments)
    settings = override(settings, assignments)
    if options.config or options.smoke:
        return settings
    if isinstance(settings, TeacherSettings | DistillSettings) and not getattr(
        options, "parity", None
    ):
        settings = override(with_enough_updates(settings), assignments)
    is_chosen = any(one.startswith("jit_compile=") for one in assignments)
    if not is_chosen and isinstance(
        settings, TeacherSettings | DistillSettings | EmbedderSettings
    ):
        run_dir = getattr(options, "run_dir", None)
        settings = with_quick_compilation(settings, run_dir)
    return settings


def with_strategy(settings, strategy: str):
    """Returns the settings of a run and its inner runs for several devices."""
    changes = {"strategy": strategy, "jit_compile": False}
    for name in ("teacher", "pretrained", "general"):
        made = getattr(settings, name, None)
        if isinstance(made, TeacherSettings | PretrainSettings):
            changes[name] = with_strategy(made, strategy)
    return dataclasses.replace(settings, **changes)


def reject_unused_sizes(settings, assignments: Sequence[str]) -> None:
    """Refuses a batch size in a unit that the run does not use."""
    read, other = "batch_size", "batch_tokens"
    if getattr(settings, "reads_sentences", False):
        read, other = other, read
    for assignment in assignments:
        field = assignment.partition("=")[0]
        if field.split(".")[-1] == other:
            raise unread(field, f"by this run: set {read}")


def teachers_of_encoder(options, data, stages, corpus):
    """Returns the runs that train a recipe's teachers from `--encoder`."""
    encoder = absolute(options.encoder)
    learned_from = any(
        stage.objectives for stage in stages if stage.data == "corpus"
    )
    pretrained = encoder
    if learned_from and models.find(encoder).kind != "masked_lm":
        pretrained = PretrainSettings(
            corpus=corpus,
            model=ModelSettings(checkpoint=encoder),
            stages=pretraining.STAGES,
        )
    teacher = TeacherSettings(
        data=data,
        model=ModelSettings(
            checkpoint=encoder if pretrained is encoder else PRETRAINED
        ),
        stages=fine_tuning.STAGES,
    )
    return teacher, pretrained


def with_same_settings(settings):
    """Returns settings whose teachers have the run's data, text and so on."""
    same = {
        "jit_compile": settings.jit_compile,
        "dtype_policy": settings.dtype_policy,
        "strategy": settings.strategy,
        **{name: getattr(settings, name) for name in FREE},
    }
    changes = {
        "teacher": dataclasses.replace(
            settings.teacher, data=settings.data, **same
        )
    }
    if isinstance(settings.pretrained, PretrainSettings):
        changes["pretrained"] = dataclasses.replace(
            settings.pretrained, corpus=settings.corpus, **same
        )
    return dataclasses.replace(settings, **changes)
