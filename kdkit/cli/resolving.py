"""From options to settings: defaults, `--config`, `--set`, all checked."""

import dataclasses
import math
import pathlib
import sys
from collections.abc import Sequence

from kdkit import data
from kdkit import models
from kdkit.backends import tf
from kdkit.cli.choosing import augmented_settings
from kdkit.cli.choosing import corpus_of
from kdkit.cli.choosing import corpus_settings
from kdkit.cli.choosing import general_distillation
from kdkit.cli.choosing import model_to_pretrain
from kdkit.cli.choosing import pretrained_encoder
from kdkit.cli.choosing import print_start
from kdkit.cli.choosing import recipe_on_text
from kdkit.cli.choosing import student_settings
from kdkit.cli.choosing import unlabeled_settings
from kdkit.cli.choosing import wanted_stages
from kdkit.cli.choosing import with_batches_that_fit
from kdkit.cli.choosing import with_rows_that_fit
from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.cli.options import located
from kdkit.cli.options import sentence_settings
from kdkit.cli.options import settings_of
from kdkit.cli.options import trains_encoder_decoder
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.recipes import fine_tuning
from kdkit.recipes import pretraining
from kdkit.recipes.stages import same_number_of_updates
from kdkit.runs import smoke
from kdkit.runs.directory import CONFIG
from kdkit.runs.directory import read_config
from kdkit.runs.settings import FREE
from kdkit.runs.settings import PRETRAINED
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import TeacherSettings
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training.data_settings import CacheSettings
from kdkit.training.data_settings import DataSettings
from kdkit.training.model_settings import UPDATE
from kdkit.training.model_settings import ModelSettings


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


SETTING = "jit_compile"
# Devices of NVIDIA's and AMD's drivers on Linux. Without them TensorFlow, which
# takes seconds to import, need not be asked for GPUs.
DRIVERS = (pathlib.Path("/dev/nvidiactl"), pathlib.Path("/dev/kfd"))
# Updates of a stage below which a CPU compiles a step longer than it saves. For
# TinyBERT's student of 4×312, a teacher of 6×384 and batches of 32 rows, XLA
# takes 16 to 20 s of CPU for the first step of each length, the update alone 9
# to 10 s; the steps after it take 0.9 s (32 tokens) and 1.4 s (48) either way.
SHORT = 1000


def with_quick_compilation(settings, options):
    """Returns settings that compile the update alone, if the run is short.

    A run is short if its stages on the task have fewer than 1,000 updates each
    on average. XLA compiles the whole step once for each length of the batches
    in every stage. Runs with GPUs, a strategy, augmented copies or unlabelled
    rows stay as they are, and so do those whose rows cannot be counted at a
    glance: by the lines of a table. What a run was begun with holds on.

    Args:
        settings: `TeacherSettings` or `DistillSettings`, with `--set`.
        options: the parsed options of a verb.
    """
    if (
        settings.jit_compile is not True
        or settings.strategy is not None
        or options.config
        or options.smoke
        or any(text.startswith(f"{SETTING}=") for text in options.set)
    ):
        return settings
    begun = _begun_with(getattr(options, "run_dir", None))
    if begun is not None:
        return dataclasses.replace(settings, jit_compile=begun)
    if not _is_short(settings) or _has_gpu():
        return settings
    return dataclasses.replace(settings, jit_compile=UPDATE)


def _begun_with(run_dir):
    """What a run directory was begun with, `None` for a new one."""
    if run_dir is None or not pathlib.Path(run_dir, CONFIG).is_file():
        return None
    return read_config(run_dir).get(SETTING)


def _has_gpu():
    if sys.platform == "linux" and not any(map(pathlib.Path.exists, DRIVERS)):
        return False
    return bool(tf.config.list_physical_devices("GPU"))


def _is_short(settings):
    if getattr(settings, "augmented", None) or getattr(
        settings, "unlabeled", None
    ):
        return False
    num_rows = _count_rows(settings.data)
    if num_rows is None:
        return False
    updates = [
        stage.epochs * math.ceil(num_rows / stage.batch_size)
        for stage in settings.stages
        if stage.data == "task"
    ]
    return sum(updates) < SHORT * len(updates)


def _count_rows(settings):
    """About how many rows are trained on, `None` where that is not known."""
    task = get_task(settings.task)
    if settings.data_dir is None or not isinstance(
        task.layout, data.TableLayout
    ):
        return settings.max_train_rows
    try:
        with open(task.layout.path("train", settings.data_dir), "rb") as file:
            blocks = iter(lambda: file.read(1 << 20), b"")
            count = sum(block.count(b"\n") for block in blocks)
    except OSError:  # a missing file is reported when it is read
        return None
    count -= task.layout.has_header
    return min(count, settings.max_train_rows or count)


def refuse_sizes_not_read(settings, assignments: Sequence[str]) -> None:
    """Refuses the size of a batch that a run does not read.

    Args:
        settings: those of a run.
        assignments: sequence of `dotted.field=value`, what `--set` was given.

    Raises:
        UsageError: if one sets rows where batches are counted in tokens, or
            tokens where they are counted in rows.
    """
    of_tokens = getattr(settings, "reads_sentences", False)
    read, unread = "batch_size", "batch_tokens"
    if of_tokens:
        read, unread = unread, read
    fields = [assignment.partition("=")[0] for assignment in assignments]
    found = [field for field in fields if field.split(".")[-1] == unread]
    if found:
        raise UsageError(
            f"--set: {', '.join(found)} would not be read. Batches of this "
            f"run are counted in {'tokens' if of_tokens else 'rows'}: set "
            f"{read} in its place."
        )


def cache_settings(options) -> CacheSettings | None:
    """Returns where the teacher's outputs are to be kept, if anywhere.

    Args:
        options: the parsed options of a verb with `--cache`.

    Raises:
        UsageError: if something is said of a cache and there is none.
    """
    if options.cache is not None:
        return CacheSettings(
            located(options.cache),
            options.cache_precision or "fp32",
            absolute(options.teacher_file),
        )
    if given := given_flags(options, ("cache_precision", "teacher_file")):
        raise UsageError(
            f"{' and '.join(given)} needs --cache beside it. Received: none."
        )
    return None


def check_one_source(options) -> None:
    """Refuses what --encoder decides, beside it.

    Raises:
        UsageError: with the flags that clash.
    """
    given = given_flags(
        options,
        ("teacher", "teacher_weights", "pretrained", "cache", "teacher_file"),
    )
    if options.encoder is not None and given:
        raise UsageError(
            "--encoder makes the teachers in this run, and "
            f"{', '.join(given)} is of teachers that are there. Leave one of "
            "them out."
        )


def teachers_of_encoder(options, data, stages, corpus):
    """What is trained before a recipe, where only an encoder is there.

    Args:
        options: the parsed options of `kdkit distill`, with `encoder`.
        data: `DataSettings` of the task.
        stages: tuple of `Stage` that will be run.
        corpus: `CorpusSettings` or `None`.

    Returns:
        Tuple of `TeacherSettings`, and what the run's pretrained encoder is: a
        `PretrainSettings` where stages on the corpus learn from a head that
        the encoder has not, else its place.
    """
    encoder = absolute(options.encoder)
    learned_from = any(
        stage.objectives for stage in stages if stage.data == "corpus"
    )
    pretrained = encoder
    if learned_from and not models.has_language_model(encoder):
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
    """Gives the teachers that a run makes its own data, text and so on.

    Args:
        settings: `DistillSettings` with those of its teachers.
    """
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
