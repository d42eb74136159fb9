"""From options to settings: defaults, `--config`, `--set`, all checked."""

import dataclasses

from kdkit.cli.augmenting import augmented_settings
from kdkit.cli.batch_sizes import refuse_sizes_not_read
from kdkit.cli.caching import cache_settings
from kdkit.cli.choosing import general_distillation
from kdkit.cli.choosing import model_to_pretrain
from kdkit.cli.choosing import pretrained_encoder
from kdkit.cli.choosing import print_start
from kdkit.cli.choosing import recipe_on_text
from kdkit.cli.choosing import student_settings
from kdkit.cli.choosing import wanted_stages
from kdkit.cli.compiling import with_quick_compilation
from kdkit.cli.configs import settings_of
from kdkit.cli.corpora import corpus_of
from kdkit.cli.corpora import corpus_settings
from kdkit.cli.corpora import unlabeled_settings
from kdkit.cli.lengths import with_batches_that_fit
from kdkit.cli.lengths import with_rows_that_fit
from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.cli.sentences import sentence_settings
from kdkit.cli.sentences import trains_encoder_decoder
from kdkit.cli.teachers import check_one_source
from kdkit.cli.teachers import teachers_of_encoder
from kdkit.cli.teachers import with_same_settings
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.recipes import fine_tuning
from kdkit.recipes import pretraining
from kdkit.recipes import smoke
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training.compiling import UPDATE
from kdkit.training.control_stages import same_number_of_updates
from kdkit.training.data_settings import DataSettings
from kdkit.training.model_settings import ModelSettings
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings


def teacher_settings(options) -> TeacherSettings:
    """The settings of `kdkit train-teacher`."""
    _reject_clashes(options, "task", "data_dir", "model")
    if options.config:
        settings = settings_of(TeacherSettings, options.config)
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
        "teacher_weights", "word_vectors", "unlabeled", "unlabeled_columns",
        "unlabeled_per_labeled", "general", "augment", "augment_model",
        "augment_vectors", "encoder",
    )  # fmt: skip
    if options.config:
        settings = settings_of(DistillSettings, options.config)
        if settings.recipe != recipe.name:
            raise UsageError(
                f"{options.config} holds a run of recipe {settings.recipe!r}. "
                f"Received: {recipe.name!r}. Name {settings.recipe}, or leave "
                "--config out."
            )
    elif options.smoke:
        settings = smoke.distillation(recipe, options.parity)
    else:
        check_one_source(options)
        needed = "teacher" if options.encoder is None else "encoder"
        _require(options, "task", needed)
        stages = wanted_stages(options, recipe)
        _check_control(options, recipe.name, stages)
        if options.general is None:
            student, general = student_settings(options, recipe), None
            pretrained = pretrained_encoder(options, recipe, stages)
            corpus = corpus_of(options, recipe, stages)
        else:
            student, general = general_distillation(options, recipe)
            pretrained = corpus = None
        data = _data_settings(options)
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
            augmented=augmented_settings(options),
            general=general,
            more_teachers=tuple(more_teachers),
            teacher_weights=tuple(options.teacher_weights or ()),
            parity=options.parity,
        )
    of_control, others = _split_control(settings, options)
    try:
        settings = _finish(settings, options, others)
        problems = []
    except UsageError as error:
        problems = [str(error)]
    if of_control or (options.control and not settings.control):
        # After --set, so that the control has as many updates.
        control = same_number_of_updates(settings.stages)
        try:
            settings = override(
                dataclasses.replace(settings, control=control), of_control
            )
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    if not options.config:
        settings = with_batches_that_fit(settings, options)
    if options.encoder is not None:
        # Settings of the run apply to the teachers that it makes first, too.
        settings = override(with_same_settings(settings), options.set)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    if not (options.config or options.smoke):
        print_start(settings, options)
    return settings


def _check_control(options, recipe, stages):
    """Refuses a control of what has no teacher in its stages."""
    if options.control and not any(stage.objectives for stage in stages):
        raise UsageError(
            f"Recipe {recipe!r} trains the student on the labels alone, as a "
            "control does. Remove --control."
        )


def _split_control(settings, options):
    """The assignments to a control that is not made yet, and the others.

    Raises:
        UsageError: if `--control` or its settings do not fit the run.
    """
    _check_control(options, settings.recipe, settings.stages)
    of_control = [one for one in options.set if one.startswith("control.")]
    if settings.control or not of_control:
        return [], options.set
    if not options.control:
        raise UsageError(
            f"--set {of_control[0]}: this run has no control. Add --control."
        )
    return of_control, [one for one in options.set if one not in of_control]


def pretrain_settings(options) -> PretrainSettings:
    """The settings of `kdkit pretrain`."""
    _reject_clashes(
        options, "corpus", "column", "held_out", "one_document",
        "detokenizer", "model", "student", "tokenizer", "vocabulary_size",
        "recipe", "teacher", "parity", "stage", "pairs", "pair_columns",
        "languages", "separate_vocabularies",
    )  # fmt: skip
    if options.config:
        settings = settings_of(PretrainSettings, options.config)
    elif options.smoke:
        settings = smoke.PRETRAINING
    else:
        if options.pairs is None:
            _require(options, "corpus")
        recipe, stages = None, pretraining.STAGES
        of_sentences = trains_encoder_decoder(options)
        if of_sentences:
            stages = pretraining.FROM_SCRATCH
            if options.pairs is not None:
                stages = pretraining.PAIRS
        if (options.recipe is None) != (options.teacher is None):
            raise UsageError(
                "--recipe and --teacher go together. Received: only "
                f"{'--recipe' if options.teacher is None else '--teacher'}."
            )
        if options.recipe is not None:
            recipe, stages = recipe_on_text(get_recipe(options.recipe), options)
        elif given_flags(options, ("parity", "stage")):
            raise UsageError(
                "--parity and --stage need --recipe. Received: none."
            )
        settings = PretrainSettings(
            corpus=sentence_settings(options)
            if of_sentences
            else corpus_settings(options, recipe),
            model=model_to_pretrain(options, recipe),
            stages=stages,
            tokenizer=absolute(options.tokenizer),
            vocabulary_size=options.vocabulary_size,
            separate_vocabularies=bool(options.separate_vocabularies),
            teacher=absolute(options.teacher),
            recipe=options.recipe,
            # Batches of sentences have many shapes.
            jit_compile=UPDATE if of_sentences else True,
        )
    settings = _finish(settings, options)
    if not (options.config or options.smoke):
        settings = with_rows_that_fit(settings, options)
    if cache := cache_settings(options):
        settings = dataclasses.replace(settings, cache=cache)
    return settings


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
    if options.config and hasattr(options, "parity"):
        names += ("parity",)
    given = given_flags(options, names)
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


def _finish(settings, options, assignments=None):
    """Applies `--seed`, `--mixed-precision`, `--strategy` and `--set`.

    `assignments` are those of `--set` to apply, `None` for all.
    """
    if assignments is None:
        assignments = options.set
    if options.seed is not None:
        settings = dataclasses.replace(settings, seed=options.seed)
    if options.mixed_precision is not None:
        settings = dataclasses.replace(
            settings, dtype_policy=f"mixed_{options.mixed_precision}"
        )
    if options.strategy is not None:
        settings = with_strategy(settings, options.strategy)
    refuse_sizes_not_read(settings, assignments)
    settings = override(settings, assignments)
    if isinstance(settings, TeacherSettings | DistillSettings):
        settings = with_quick_compilation(settings, options)
    return settings


def with_strategy(settings, strategy: str):
    """Returns a run's settings for several devices, with the runs in it.

    Args:
        settings: settings of a run.
        strategy: string.
    """
    changes = {"strategy": strategy, "jit_compile": False}
    for name in ("teacher", "pretrained", "general"):
        made = getattr(settings, name, None)
        if isinstance(made, TeacherSettings | PretrainSettings):
            changes[name] = with_strategy(made, strategy)
    return dataclasses.replace(settings, **changes)
