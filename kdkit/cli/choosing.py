"""Settings chosen by options: stages, students, pretrained encoders, data."""

import dataclasses
import logging
import pathlib

from kdkit import models
from kdkit.augmentation import Augmentation, copies_for
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import absolute, given_flags, located, reject_beside
from kdkit.cli.parser import is_path
from kdkit.cli.task_data import chosen_data, names_data, validate_data
from kdkit.data import Masking, word_vector_width
from kdkit.errors import UsageError, all_mistakes
from kdkit.io.reading import read_json
from kdkit.models import PRESETS
from kdkit.models.families import family_of
from kdkit.models.places import config_file, is_encoder_alone
from kdkit.recipes import CopiedBlocks
from kdkit.recipes.quantization import NAME as QUANTIZATION
from kdkit.runs.augmenting import load_parts
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
    unknown = [name for name in options.stages if name not in known]
    if unknown:
        raise UsageError(
            f"--stages: recipe {recipe.name!r} has {', '.join(known)}. "
            f"Received: {', '.join(unknown)}."
        )
    return tuple(stage for stage in stages if stage.name in options.stages)


def student_settings(options, recipe) -> ModelSettings:
    """Returns the student that the options name, by default the recipe's."""
    plan = recipe.variant(options.parity).student
    if options.student is None and isinstance(plan, CopiedBlocks):
        settings = _copied_blocks(options, plan)
    else:
        settings = model_settings(absolute(options.student) or plan)
        if options.num_layers is not None:
            settings = _with_num_layers(settings, options)
    if options.word_vectors is not None:
        settings = _with_word_vectors(settings, options)
    return settings


def pretrained_encoder(options, recipe, stages, student):
    """Returns the place of the pretrained encoder, if the run uses one."""
    reads_text = any(
        stage.objectives for stage in stages if stage.data == "corpus"
    )
    if reads_text or student.copy_from == "pretrained":
        return _pretrained_place(options, may_be_fine_tuned=not reads_text)
    if options.pretrained is not None:
        raise UsageError(
            f"--pretrained is not used by recipe {recipe.name!r} here: the "
            "student does not start from an encoder's layers. Remove it."
        )
    return None


def log_start(settings, recipe) -> None:
    """Logs that a student starts from its fine-tuned teacher, and why."""
    place = settings.teacher
    if (
        settings.student.copy_from == "teacher"
        and recipe.student.source == "pretrained"
        and not is_encoder_alone(place)
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
    clashing = given_flags(options, ("num_layers", "word_vectors"))
    if clashing:
        raise UsageError(
            f"{' and '.join(clashing)} clashes with --general, which is a "
            "complete student. Remove one of them."
        )
    recipe.stages_on_text(options.parity)  # rejects recipes without any
    student = ModelSettings(checkpoint=place)
    corpus = corpus_settings(options, recipe)
    if corpus is None:
        given = given_flags(options, ("student", "pretrained"))
        if given:
            raise UsageError(
                f"{' and '.join(given)} describes how to make "
                f"{options.general}, which also needs --corpus. Received: no "
                "corpus."
            )
        return student, None
    teacher = _pretrained_place(options)
    stages = recipe.stages_on_text(options.parity)
    learns_masks = any(stage.trains_head for stage in stages)
    if learns_masks and not models.has_language_model(teacher):
        raise UsageError(
            f"--general: recipe {recipe.name!r} learns masked tokens there, "
            f"and {teacher} has no masked-language-modelling head. Train one "
            f"with: kdkit pretrain --model {teacher} --corpus FILE --run-dir "
            "RUN"
        )
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
        if options.stage is not None:
            raise UsageError(
                "--stage is for recipes for decoders and encoder-decoders. "
                f"Received: a teacher that is a {title}. Remove it."
            )
        return recipe, recipe.stages_on_text(options.parity)
    if family not in recipe.for_families:
        raise UsageError(
            f"Recipe {recipe.name!r} is for "
            f"{', '.join(('encoders', *recipe.for_families))}. Received: a "
            f"teacher that is a {title}. Use lightpaff, or another teacher."
        )
    recipe = recipe.for_families[family]
    stages = recipe.stages_on_text(options.parity)
    names = [stage.name for stage in stages]
    # Fine-tuning on pairs is the last stage, and the search of kdkit sweep
    # --paper is also for the last stage.
    is_last = options.pairs or getattr(options, "paper", False)
    name = options.stage or names[-1 if is_last else 0]
    if name not in names:
        raise UsageError(
            f"--stage: recipe {recipe.name!r} has {', '.join(names)}. "
            f"Received: {name}."
        )
    return recipe, (stages[names.index(name)],)


def _family_of_teacher(place):
    """The family's title, and its key in a recipe's `for_families`."""
    if models.has_encoder_decoder(place):
        return "MASS", "mass"
    backbone = _sizes_of(place)
    family = family_of(backbone)
    return family.title, family.name if family.is_decoder else None


def model_to_pretrain(options, recipe=None) -> ModelSettings:
    """Returns the model of kdkit pretrain: a checkpoint, or a new student."""
    if options.model is not None and options.student is not None:
        raise UsageError(
            "Expected one of --model, a model to continue, and --student, "
            "a preset with random weights. Received: both."
        )
    if options.model is not None:
        return ModelSettings(checkpoint=absolute(options.model))
    if recipe is not None:
        return _student_on_text(
            options.student, recipe, absolute(options.teacher)
        )
    if options.student is None:
        raise UsageError(
            "Expected one of --model, a model to continue, and --student, "
            "a preset with random weights. Received: neither."
        )
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
        copy_layers=models.choose_blocks(
            recipe.student.rule,
            encoder.num_layers,
            recipe.student.count(encoder.num_layers),
        ),
    )


def _preset(name):
    if name not in PRESETS:
        raise UsageError(
            f"--student: expected one of {sorted(PRESETS)}. Received: "
            f"{name!r}. For a checkpoint, use --model."
        )
    return model_settings(name)


def _with_num_layers(settings, options):
    """The recipe's student with another number of layers."""
    if options.student is not None:
        raise UsageError(
            "--num-layers clashes with --student, which is a complete model. "
            "Remove one of them."
        )
    if settings.bilstm is not None:
        raise UsageError(
            "--num-layers: the recipe's student is a BiLSTM of one layer. "
            "Remove it."
        )
    return dataclasses.replace(settings, num_layers=options.num_layers)


def _with_word_vectors(settings, options):
    """A BiLSTM with a file's word vectors and their size as embeddings."""
    if settings.bilstm is None:
        raise UsageError(
            "--word-vectors: only a BiLSTM starts from word vectors. Remove "
            "it, or pass --student distilled_bilstm_en_uncased."
        )
    file = absolute(options.word_vectors)
    return ModelSettings(
        bilstm=dataclasses.replace(
            settings.bilstm,
            word_vectors=file,
            embedding_dim=word_vector_width(file),
        )
    )


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
        copy_layers=models.choose_blocks(plan.rule, depth, num_copied),
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
        f"The checkpoint that {teacher} was fine-tuned from "
        f"{why}, and the recipe needs it. Pass --pretrained MODEL."
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
        reject_beside(
            options,
            "--corpus",
            *("column", "held_out", "one_document", "detokenizer"),
        )
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
        if corpus is None:
            names = [stage.name for stage in stages if stage.data == "corpus"]
            raise UsageError(
                f"Recipe {recipe.name!r} needs running text for "
                f"{', '.join(names)}. Pass --corpus FILE, or omit these "
                "stages with --stages."
            )
    elif corpus is not None:
        raise UsageError(
            f"--corpus: no stage of recipe {recipe.name!r} here trains on "
            "running text. Remove it."
        )
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
    """Returns the settings of `kdkit augment`, or raises all their mistakes."""
    if not names_data(options):
        raise UsageError(
            "Missing: --task NAME, or --train FILE for your own table."
        )
    validate_data(options)
    data = chosen_data(options)
    settings = AugmentSettings(
        task=data.task,
        data_dir=data.data_dir,
        table=data.table,
        model=absolute(options.model),
        word_vectors=absolute(options.word_vectors),
        stop_words=absolute(options.stop_words),
        parity=options.parity,
        seed=options.seed,
    )
    copies = options.copies
    if copies is None:
        copies = copies_for(data.task, options.parity)
    with all_mistakes() as check:
        augmentation = None
        with check():
            augmentation = Augmentation(
                num_copies=copies,
                probability=options.probability,
                num_candidates=options.candidates,
                sequential=options.sequential,
            )
        if augmentation is None:
            # Reported together with the other mistakes.
            with check():
                load_parts(settings, options.output)
    return dataclasses.replace(settings, augmentation=augmentation)


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
    file = config_file(place)
    if file is None:
        return None
    config = read_json(file, "the config of a model")
    for entries in (config.get("config"), config):
        for name in names if isinstance(entries, dict) else ():
            if type(entries.get(name)) is int:
                return entries[name]
    return None
