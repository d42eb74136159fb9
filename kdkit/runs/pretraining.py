"""Training of language models on text, alone or from a teacher."""

import pathlib
import random

import keras

from kdkit import models
from kdkit.distillation.distiller import Distiller
from kdkit.doctor import RUINS
from kdkit.doctor import WARNING
from kdkit.doctor import Findings
from kdkit.doctor.text_examination import examine_words_of_text
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.runs.directory import open_run
from kdkit.runs.directory import provenance
from kdkit.runs.events import Doctor
from kdkit.runs.inputs import check_inputs
from kdkit.runs.inputs import files_digest
from kdkit.runs.inputs import log_inputs
from kdkit.runs.inputs import model_digest
from kdkit.runs.log import decide
from kdkit.runs.log import finish
from kdkit.runs.log import log_findings
from kdkit.runs.log import log_model
from kdkit.runs.log import says_finished
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import Saving
from kdkit.runs.tokenizer import keep_tokenizer
from kdkit.runs.tokenizer import make_tokenizer
from kdkit.runs.tokenizer import readable_tokenizer
from kdkit.runs.tokenizer import vocabulary_sizes
from kdkit.settings import to_dict
from kdkit.taps import own_names
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import training_on
from kdkit.training.making import CORPUS_LENGTH
from kdkit.training.making import check_length
from kdkit.training.making import load_text_teacher
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.stage_trainer import Arm
from kdkit.training.text_data import is_masked
from kdkit.training.text_data import load_text
from kdkit.training.text_data import require_readable
from kdkit.training.text_data import require_vocabulary


def pretrain(
    settings: PretrainSettings,
    run_dir,
    findings=None,
    needs_models=True,
    force: bool = False,
) -> None:
    """Trains a language model on text.

    An encoder is left in `RUN/encoder/`: where the stages use its predictions
    of masked tokens, with its head; where they compare encoders alone, as
    TinyBERT's general distillation, without. A decoder is left in
    `RUN/decoder/`, an encoder-decoder in `RUN/encoder_decoder/`, with its head.

    Args:
        settings: `PretrainSettings`.
        run_dir: string or path of a new or a started run directory.
        findings: `kdkit.doctor.Findings` of the checks before it, to be logged,
            or `None`, with which unknown words are counted here. Defaults to
            `None`.
        needs_models: bool, as in `distill`. Defaults to `True`.
        force: bool, as in `distill`. Defaults to `False`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if half of the texts have unknown words, or a loss is not
            finite.
    """
    with (
        training_on(settings) as distribution,
        open_run(
            run_dir, to_dict(settings), PretrainSettings, distribution
        ) as run,
    ):
        inputs = _inputs(settings)
        check_inputs(run, inputs, distribution)
        if says_finished(run, needs_models):
            return
        keras.utils.set_random_seed(settings.seed)
        has_head = any(stage.trains_head for stage in settings.stages)
        with distribution.scope(), own_names():
            loaded, teacher = _load(settings, has_head, run.path / "tokenizer")
            model = models.in_policy(loaded.model, settings.dtype_policy)
        name = _arm_name(model)
        if findings is None:
            findings = _examine_words_first(
                run, settings.corpus, loaded.tokenizer, force
            )
        with distribution.chief_first():  # it may be of other outputs
            caches = _open_cache(
                settings, teacher, loaded.tokenizer, distribution
            )
        run.write_config(to_dict(settings), provenance())
        if settings.vocabulary_size is not None and not run.is_read_only:
            keep_tokenizer(loaded.tokenizer, run.path / "tokenizer")
        log_inputs(run, inputs)
        log_findings(run, findings)
        with distribution.chief_first():
            source = load_text(
                settings.corpus, loaded.tokenizer, run.path / "corpus", model
            )
        arm = Arm(
            name=name,
            model=model,
            teacher=teacher,
            source=source,
            seed=settings.seed,
            jit_compile=settings.jit_compile,
            caches=caches,
            distribution=distribution,
            saving=Saving.of(settings),
        )
        log_model(run, name, model, settings.model)
        if teacher is not None:
            log_model(run, "teacher", teacher)
        with models.frozen_pooler(models.backbone_of(model)):
            best = arm.run(run, settings.stages)
        if caches is not None:
            caches.log(run)
        path = run.path / name
        if not (run.is_read_only or path.exists()):
            size = models.stored_size(model)
            with staged(path, size) as partial, own_names():
                model = models.in_policy(model, "float32")
                if has_head:
                    models.save_language_model(
                        model,
                        loaded.tokenizer,
                        partial,
                        settings.corpus.sequence_length,
                        _sides(settings.corpus),
                    )
                else:
                    models.save_encoder(model, loaded.tokenizer, partial)
        finish(run, {name: best})


def _arm_name(model):
    """What the model is called in its run."""
    if models.is_encoder_decoder(model):
        return "encoder_decoder"
    return "decoder" if models.is_causal(model) else "encoder"


def _sides(corpus):
    """What the model reads and writes, where it learned from pairs."""
    return corpus.sides if isinstance(corpus, PairSettings) else (None, None)


def _open_cache(settings, teacher, tokenizer, distribution):
    """The cache of the teacher, if there is to be one."""
    if settings.cache is None:
        return None
    taught = LoadedModel(teacher, tokenizer, False)
    return TeacherCaches(
        settings.cache, [taught], [settings.teacher], distribution=distribution
    )


def _inputs(settings):
    """What a run is made from, by content."""
    inputs = {"corpus": files_digest(settings.corpus.all_files)}
    model = settings.model
    for name, place in (
        ("model", model.checkpoint or model.copy_from),
        ("teacher", settings.teacher),
    ):
        if place is not None:
            inputs[name] = model_digest(place)
    if settings.tokenizer is not None:
        place = pathlib.Path(settings.tokenizer)
        if place.suffix == ".txt":
            inputs["tokenizer"] = files_digest([place])
        elif place.suffix == ".json" and place.is_file():
            inputs["tokenizer"] = files_digest(models.byte_pair_files(place))
        else:
            inputs["tokenizer"] = model_digest(settings.tokenizer)
    return inputs


def _load(settings, has_head, tokenizer_directory):
    """The model to train with its tokenizer, and its teacher or `None`."""
    loaded, teacher, loaded_teacher = None, None, None
    with all_mistakes() as check:
        with check():
            settings.corpus.check()
        if settings.cache is not None:
            with check():
                settings.cache.check()
        with check():
            if settings.teacher is not None:
                loaded_teacher = load_text_teacher(settings.teacher, has_head)
            # So that arms with and without a teacher begin as one: Keras draws
            # the seeds of weights from this generator. TensorFlow's is left,
            # since SentencePiece tokenizers break when it is set again.
            random.seed(settings.seed)
            loaded = _make_model(
                settings, loaded_teacher, has_head, tokenizer_directory
            )
    sequence_length = settings.corpus.sequence_length
    check_length(sequence_length, loaded.model, CORPUS_LENGTH)
    require_readable(settings.corpus, loaded.model)
    if settings.reads_sentences:
        require_vocabulary(settings.corpus, loaded.tokenizer)
    if loaded_teacher is not None:
        teacher = loaded_teacher.model
        if _arm_name(teacher) != _arm_name(loaded.model):
            raise UsageError(
                "Encoders, decoders and encoder-decoders do not predict the "
                f"same tokens. Received: a {type(teacher).__name__} as "
                f"teacher, a {type(loaded.model).__name__} as student. Use two "
                "of a kind."
            )
        check_length(sequence_length, teacher, CORPUS_LENGTH)
        if not has_head:
            teacher = teacher.backbone
        if settings.cache is not None and is_masked(settings.corpus, teacher):
            raise UsageError(
                "--cache: masks are drawn anew in every epoch; what a teacher "
                "says of masked tokens cannot be kept. Leave it out."
            )
        _check_fit(settings, teacher, loaded.model)
    return loaded, teacher


def _make_model(
    settings, teacher, has_head, tokenizer_directory
) -> LoadedModel:
    """Loads or builds the model of a run, with its head if it needs one."""
    model = settings.model
    if model.checkpoint is not None:
        loaded = models.load_language_model(model.checkpoint)
        if teacher is not None:
            models.check_same_ids(teacher.tokenizer, loaded.tokenizer)
        if has_head:
            return loaded
        return LoadedModel(loaded.model.backbone, loaded.tokenizer, False)
    if model.copy_from is not None:
        encoder, tokenizer = models.load_encoder(model.copy_from)
        if teacher is not None:
            models.check_same_ids(teacher.tokenizer, tokenizer)
        backbone = models.copy_blocks(encoder, model.copy_layers)
    else:
        if teacher is not None:
            tokenizer = teacher.tokenizer
        else:
            tokenizer = make_tokenizer(settings, tokenizer_directory)
        tokenizer = readable_tokenizer(model, tokenizer)
        backbone = models.student(model.config(), **vocabulary_sizes(tokenizer))
    made = models.language_model(backbone) if has_head else backbone
    return LoadedModel(made, tokenizer, False)


def _check_fit(settings, teacher, model):
    """Builds what the stages will build, so that what does not fit is told."""
    with all_mistakes() as check:
        for stage in settings.stages:
            if stage.objectives:
                with check():
                    Distiller(
                        teacher,
                        model,
                        stage.weighted_objectives(),
                        stage.label_weight,
                        chunk_size=stage.chunk_size,
                    )


def _examine_words_first(
    run, corpus, tokenizer, force: bool
) -> Findings | None:
    """Findings about texts with unknown words, once for a run; else `None`."""
    if run.is_read_only or run.events(Doctor):
        return None
    findings = Findings(keeps_mistakes=False)
    examine_words_of_text("the corpus", corpus, tokenizer, findings)
    if not any(one.outcome in (WARNING, RUINS) for one in findings):
        return None
    decide(findings, force)
    return findings
