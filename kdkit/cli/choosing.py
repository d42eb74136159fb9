"""Settings chosen by options: stages, students, pretrained encoders, data."""

import dataclasses
import logging
import pathlib

from kdkit import models
from kdkit.augmentation import Augmentation, copies_for
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import absolute, located, reject_given, require
from kdkit.cli.parser import is_path
from kdkit.cli.task_data import chosen_data
from kdkit.data import Masking, word_vector_width
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS
from kdkit.models.families import family_of
from kdkit.models.places import find
from kdkit.models.sizes import choose_blocks
from kdkit.recipes import CopiedBlocks
from kdkit.recipes.quantization import NAME as QUANTIZATION
from kdkit.runs.directory import CONFIG, RunDirectory, read_config
from kdkit.runs.settings import PRETRAINED, DistillSettings, PretrainSettings
from kdkit.training.data_settings import (
    AugmentedSettings,
    AugmentSettings,
    CorpusSettings,
    UnlabeledSettings,
    counting_padding,
    with_one_length,
)
from kdkit.training.model_settings import ModelSettings, model_settings

_log = logging.getLogger(__name__)

# Names for the number of layers in presets and Hugging Face checkpoints.
DEPTHS = ("num_layers", "num_hidden_layers", "n_layers")


def wanted_stages(options, recipe, task):
    """Returns the stages that the options name, by default all stages."""
    stages = recipe.stages_for(task, options.parity)
    if options.general is not None:
        # The general run has finished the stages on text.
        stages = tuple(stage for stage in stages if stage.data == "task")
    if options.stages is None:
        return stages
    known = [stage.name for stage in stages]
    if getattr(options, "quantize", None) is not None:
        known.append(QUANTIZATION)  # added by `--quantize`
    for name in options.stages:
        if name not in known:
            raise unknown("stage", name, known)
    return tuple(stage for stage in stages if stage.name in options.stages)


def student_settings(options, recipe) -> ModelSettings:
    """Returns the student that the options name, by default the recipe's."""
    plan = recipe.variant(options.parity).student
    if options.student is None and isinstance(plan, CopiedBlocks):
        settings = _copied_blocks(options, plan)
    else:
        settings = model_settings(absolute(options.student) or plan)
        if options.num_layers is not None:
            settings = dataclasses.replace(
                settings, num_layers=options.num_layers
            )
    if options.word_vectors is not None:
        file = absolute(options.word_vectors)
        bilstm = dataclasses.replace(
            settings.bilstm,
            word_vectors=file,
            embedding_dim=word_vector_width(file),
        )
        settings = ModelSettings(bilstm=bilstm)
    return settings


def pretrained_encoder(options, recipe, stages, student):
    """Returns the place of the pretrained encoder, if the run uses one."""
    reads_text = any(
        stage.objectives for stage in stages if stage.data == "corpus"
    )
    if reads_text or student.copy_from == "pretrained":
        return _pretrained_place(options, may_be_fine_tuned=not reads_text)
    reject_given(options, ("pretrained",), f"by recipe {recipe.name!r} here")
    return None


def log_start(settings, recipe) -> None:
    """Logs that a student starts from its fine-tuned teacher, and why."""
    place = settings.teacher
    if (
        settings.student.copy_from == "teacher"
        and recipe.student.source == "pretrained"
        and find(place).kind == "classifier"
    ):
        why = _why_unknown(place, _encoder_behind(place))
        _log.info(
            f"The checkpoint that {place} was fine-tuned from {why}. The "
            "student starts from the layers and the head of the fine-tuned "
            "teacher. Pass --pretrained MODEL to start from a pretrained "
            "encoder.",
        )


def general_distillation(options, recipe):
    """Returns the student of general distillation and the run that makes it."""
    place = located(options.general)
    recipe.stages_on_text(options.parity)  # rejects recipes without any
    student = ModelSettings(checkpoint=place)
    corpus = corpus_settings(options, recipe)
    if corpus is None:
        reject_given(options, ("student", "pretrained"), "without --corpus")
        return student, None
    teacher = _pretrained_place(options)
    stages = recipe.stages_on_text(options.parity)
    return student, PretrainSettings(
        corpus=corpus,
        model=_student_on_text(options.student, recipe, teacher),
        stages=stages,
        teacher=teacher,
        recipe=recipe.name,
    )


def recipe_on_text(recipe, options):
    """The recipe for the family of --teacher, and its stages on text."""
    title, family = _family_of_teacher(absolute(options.teacher))
    if family is None:
        reject_given(options, ("stage",), "for encoders")
        return recipe, recipe.stages_on_text(options.parity)
    if family not in recipe.for_families:
        raise unknown(f"family of {recipe.name}", family, recipe.for_families)
    recipe = recipe.for_families[family]
    stages = recipe.stages_on_text(options.parity)
    names = [stage.name for stage in stages]
    # Fine-tuning on pairs is the last stage, and the search of kdkit sweep
    # --paper is also for the last stage.
    is_last = options.pairs or getattr(options, "paper", False)
    name = options.stage or names[-1 if is_last else 0]
    if name not in names:
        raise unknown("stage", name, names)
    return recipe, (stages[names.index(name)],)


def _family_of_teacher(place):
    """The family's title, and its key in a recipe's `for_families`."""
    if find(place).kind == "encoder_decoder":
        return "MASS", "mass"
    backbone = _sizes_of(place)
    family = family_of(backbone)
    return family.title, family.name if family.is_decoder else None


def model_to_pretrain(options, recipe=None) -> ModelSettings:
    """Returns the model of kdkit pretrain: a checkpoint, or a new student."""
    if options.model is not None:
        reject_given(options, ("student",), "beside --model")
        return ModelSettings(checkpoint=absolute(options.model))
    if recipe is not None:
        return _student_on_text(
            options.student, recipe, absolute(options.teacher)
        )
    require(options, "student")
    return _preset(options.student)


def _student_on_text(student, recipe, teacher):
    """A preset, the recipe's preset, or layers of its teacher."""
    if student is not None:
        return _preset(student)
    if isinstance(recipe.student, str):
        return model_settings(recipe.student)
    encoder = _sizes_of(teacher)
    return ModelSettings(
        copy_from=teacher,
        copy_layers=choose_blocks(
            recipe.student.rule,
            encoder.num_layers,
            recipe.student.count(encoder.num_layers),
        ),
    )


def _preset(name):
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return model_settings(name)


def _copied_blocks(options, plan) -> ModelSettings:
    """The layers of the encoder that a plan chooses, by number."""
    if plan.source == "pretrained" or options.encoder is not None:
        place = _pretrained_place(options, may_be_fine_tuned=True)
    else:
        place = absolute(options.teacher[0])
    depth = saved_size(place, *DEPTHS) or _sizes_of(place).num_layers
    num_copied = options.num_layers
    if num_copied is None:
        num_copied = max(depth // 2, 1)
    is_teacher = options.pretrained is None and options.encoder is None
    is_teacher = is_teacher and place == absolute(options.teacher[0])
    return ModelSettings(
        copy_from="teacher" if is_teacher else plan.source,
        copy_layers=choose_blocks(plan.rule, depth, num_copied),
    )


def _sizes_of(place):
    """An encoder without its weights."""
    load_tensorflow()
    encoder, _ = models.load_encoder(place, load_weights=False)
    return encoder


def _pretrained_place(options, may_be_fine_tuned=False):
    """The place of the encoder before fine-tuning."""
    place = absolute(options.pretrained or options.encoder)
    if place is not None:
        return place
    teacher = absolute(options.teacher[0])
    place = _encoder_behind(teacher)
    why = _why_unknown(teacher, place)
    if why is None:
        return place
    if may_be_fine_tuned and not pathlib.Path(teacher).is_file():
        return teacher
    raise UsageError(
        f"The checkpoint that {teacher} was fine-tuned from {why}. Pass "
        "--pretrained MODEL."
    )


def _why_unknown(teacher, place):
    """Why a teacher's recorded checkpoint is not used, `None` if it is."""
    if place is None:
        return "is not recorded"
    if is_path(place) and not pathlib.Path(place).exists():
        return f"is missing ({place})"
    load_tensorflow()

    from kdkit.runs import inputs

    try:
        model = {"model": inputs.model_digest(place)}
        inputs.require_unchanged(RunDirectory(pathlib.Path(teacher)), model)
    except UsageError:
        return f"has changed since ({place})"
    return None


def _encoder_behind(teacher):
    """The recorded checkpoint that a teacher was fine-tuned from, or `None`."""
    model = {}
    if pathlib.Path(teacher, CONFIG).is_file():
        model = read_config(teacher).get("model", {})
    place = model.get("checkpoint")
    if place == PRETRAINED:
        # Trained in the same run as the teacher.
        return str(pathlib.Path(teacher).parent / "pretrained_run")
    return place


def corpus_settings(options, recipe=None) -> CorpusSettings | None:
    """Returns the corpus that the options name, or `None`."""
    if options.corpus is None:
        return None
    share_of = Masking.share_of if recipe is None else recipe.mask_share_of
    return CorpusSettings(
        files=tuple(map(absolute, options.corpus)),
        column=options.column,
        held_out=tuple(map(absolute, options.held_out or ())),
        one_document=bool(options.one_document),
        detokenizer=options.detokenizer,
        masking=Masking(share_of=share_of),
    )


def stages_corpus(options, recipe, stages):
    """Returns the corpus for stages that need one, `None` if none does."""
    corpus = corpus_settings(options, recipe)
    if any(stage.data == "corpus" for stage in stages):
        require(options, "corpus")
    else:
        reject_given(options, ("corpus",), f"by recipe {recipe.name!r} here")
    return corpus


def unlabeled_settings(options) -> UnlabeledSettings | None:
    """Returns the unlabelled text that the options name, or `None`."""
    if options.unlabeled is None:
        return None
    per_labeled = options.unlabeled_per_labeled
    return UnlabeledSettings(
        files=tuple(map(absolute, options.unlabeled)),
        columns=tuple(options.unlabeled_columns or ()),
        per_labeled=1.0 if per_labeled is None else per_labeled,
    )


def augment_settings(options) -> AugmentSettings:
    """Returns the settings of `kdkit augment`."""
    data = chosen_data(options)
    copies = options.copies
    if copies is None:
        copies = copies_for(data.task, options.parity)
    return AugmentSettings(
        task=data.task,
        data_dir=data.data_dir,
        table=data.table,
        model=absolute(options.model),
        word_vectors=absolute(options.word_vectors),
        stop_words=absolute(options.stop_words),
        parity=options.parity,
        seed=options.seed,
        augmentation=Augmentation(
            num_copies=copies,
            probability=options.probability,
            num_candidates=options.candidates,
            sequential=options.sequential,
        ),
    )


def augmented_settings(options, data) -> AugmentedSettings | None:
    """Returns the augmented examples of a distillation, or `None`."""
    if options.augment is None:
        return None
    made_by = None
    parity = options.parity if options.parity == "tinybert" else None
    if options.augment_model is not None:
        made_by = AugmentSettings(
            task=data.task,
            data_dir=data.data_dir,
            table=data.table,
            model=absolute(options.augment_model),
            word_vectors=absolute(options.augment_vectors),
            augmentation=Augmentation(num_copies=copies_for(data.task, parity)),
            parity=parity,
        )
    return AugmentedSettings(file=located(options.augment), made_by=made_by)


FIELD = "corpus.sequence_length"
BUCKETS = "data.num_buckets"
POSITIONS = "max_sequence_length"


def with_rows_that_fit(settings: PretrainSettings, assignments):
    """Returns settings whose default sequences fit the models' positions."""
    if any(field.startswith(f"{FIELD}=") for field in assignments):
        return settings
    longest = settings.corpus.sequence_length
    known = [length for length in _positions(settings) if length is not None]
    if longest <= min(known, default=longest):
        return settings
    _log.info(
        f"Sequences have at most {min(known)} tokens, the model's number of "
        f"positions, not {longest}. Choose another length with --set "
        f"{FIELD}=N.",
    )
    corpus = dataclasses.replace(settings.corpus, sequence_length=min(known))
    return dataclasses.replace(settings, corpus=corpus)


def with_batches_that_fit(settings: DistillSettings, assignments):
    """Returns settings with one batch length if a loss counts padding."""
    if any(field.startswith(f"{BUCKETS}=") for field in assignments):
        return settings
    names = counting_padding(settings.stages)
    if not names:
        return settings
    _log.info(
        f"Every batch is padded to {settings.data.sequence_length} tokens, "
        f"because {', '.join(names)} count padding. Choose another number of "
        f"lengths with --set {BUCKETS}=N.",
    )
    return with_one_length(settings)


def _positions(settings):
    """The positions of the model and its teacher, `None` for unknown ones."""
    model = settings.model
    yield model.num_positions
    for place in (model.checkpoint, model.copy_from, settings.teacher):
        if place is not None:
            yield saved_size(place, POSITIONS)


def saved_size(place, *names) -> int | None:
    """Returns a size from the `config.json` in a model's directory."""
    config = find(place).config
    for entries in (config.get("config"), config):
        for name in names if isinstance(entries, dict) else ():
            if type(entries.get(name)) is int:
                return entries[name]
    return None
