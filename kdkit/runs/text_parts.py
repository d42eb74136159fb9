"""The parts of runs on text: tokenizer, models, text, cache."""

import random

import keras

from kdkit import models
from kdkit.doctor import RUINS, WARNING, Findings
from kdkit.doctor.text_examination import (
    examine_steps_first,
    examine_text_words,
)
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.models.heads import is_causal, is_encoder_decoder
from kdkit.models.saving import stored_size
from kdkit.runs.build import Leg, Parts, require_fitting_objectives
from kdkit.runs.events import Doctor
from kdkit.runs.inputs import text_inputs
from kdkit.runs.log import decide, log_model
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.tokenizer import (
    make_tokenizer,
    save_trained_tokenizer,
)
from kdkit.taps import own_names
from kdkit.training.caching import TeacherCaches
from kdkit.training.making import (
    CORPUS_LENGTH,
    load_text_teacher,
    require_length,
)
from kdkit.training.sentence_settings import PairSettings, SentenceSettings
from kdkit.training.text import (
    is_masked,
    load_text,
    require_readable,
    require_vocabulary,
)


class PretrainParts(Parts):
    """The parts of a `PretrainSettings` run."""

    def inputs(self):
        return text_inputs(self.settings)

    def check(self, run, force, has_steps):
        if not has_steps:
            return None
        return examine_steps_first(Pipeline(self.settings, self.place), force)

    def build(self):
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        self._has_head = any(stage.trains_head for stage in settings.stages)
        with self.distribution.scope(), own_names():
            loaded = self._load()
            self.tokenizer = loaded.tokenizer
            self._model = models.in_policy(loaded.model, settings.dtype_policy)

    def _load(self):
        """The model to train with its tokenizer; sets the teacher."""
        settings, teacher = self.settings, None
        self._teacher = None
        if settings.teacher is not None:
            teacher = load_text_teacher(settings.teacher, self._has_head)
        # So that models with and without a teacher begin with the same weights:
        # Keras draws their seeds from this generator. TensorFlow's generator is
        # not set again, because that breaks SentencePiece tokenizers.
        random.seed(settings.seed)
        loaded = self._make(teacher)
        length = settings.corpus.sequence_length
        require_length(length, loaded.model, CORPUS_LENGTH)
        require_readable(settings.corpus, loaded.model)
        if settings.reads_sentences:
            require_vocabulary(settings.corpus, loaded.tokenizer)
        if teacher is not None:
            self._teacher = self._fitting_teacher(teacher.model, loaded.model)
        return loaded

    def _fitting_teacher(self, teacher, model):
        """The teacher with the head that the stages need."""
        settings = self.settings
        require_length(settings.corpus.sequence_length, teacher, CORPUS_LENGTH)
        if not self._has_head:
            teacher = teacher.backbone
        hides = isinstance(settings.corpus, SentenceSettings)
        hides = hides or is_masked(settings.corpus, teacher)
        if settings.cache is not None and hides:
            raise UsageError(
                "Masks and spans are drawn again in every epoch. Expected no "
                "cache."
            )
        stages = [stage for stage in settings.stages if stage.objectives]
        require_fitting_objectives(stages, teacher, model)
        return teacher

    def _make(self, teacher):
        """Loads or builds the model, with a head if the stages need one."""
        settings, model = self.settings, self.settings.model
        if model.checkpoint is not None:
            loaded = models.load_language_model(model.checkpoint)
            if teacher is not None:
                models.require_same_ids(teacher.tokenizer, loaded.tokenizer)
            if self._has_head:
                return loaded
            return LoadedModel(loaded.model.backbone, loaded.tokenizer, False)
        if model.copy_from is not None:
            encoder, tokenizer = models.load_encoder(model.copy_from)
            if teacher is not None:
                models.require_same_ids(teacher.tokenizer, tokenizer)
            backbone = models.copy_blocks(encoder, model.copy_layers)
        else:
            tokenizer = (
                teacher.tokenizer
                if teacher is not None
                else make_tokenizer(settings, self.place / "tokenizer")
            )
            backbone = models.student(
                model.config(), vocabulary_size=tokenizer.vocabulary_size()
            )
        made = models.language_model(backbone) if self._has_head else backbone
        return LoadedModel(made, tokenizer, False)

    def examine(self, run, force):
        if run.is_read_only or run.events(Doctor):
            return None
        findings = Findings()
        examine_text_words(
            "the corpus", self.settings.corpus, self.tokenizer, findings
        )
        if not any(one.outcome in (WARNING, RUINS) for one in findings):
            return None
        decide(findings, force)
        return findings

    def open_caches(self):
        settings = self.settings
        if settings.cache is not None:
            self.caches = TeacherCaches(
                settings.cache,
                [self._teacher],
                [settings.teacher],
                distribution=self.distribution,
            )

    def load(self, run):
        corpus, model = self.settings.corpus, self._model
        if self.settings.vocabulary_size is not None and not run.is_read_only:
            save_trained_tokenizer(self.tokenizer, self.place / "tokenizer")
        self._source = load_text(
            corpus, self.tokenizer, self.place / "corpus", model
        )

    @property
    def arms(self):
        return (
            "student"
            if self.settings.teacher
            else language_model_kind(self._model),
        )

    def legs(self, run, name):
        settings = self.settings
        log_model(run, name, self._model, settings.model)
        if self._teacher is not None:
            log_model(run, "teacher", self._teacher)
        return [
            Leg(
                self._model,
                self._teacher,
                self._source,
                settings.stages,
                caches=self.caches,
                on_text=True,
            )
        ]

    def save(self, run, name, model):
        path, corpus = self.place / name, self.settings.corpus
        if run.is_read_only or path.exists():
            return
        sides = (None, None)
        if isinstance(corpus, PairSettings):
            sides = corpus.sides
        size = stored_size(model)
        with staged(path, size) as partial, own_names():
            loaded = LoadedModel(
                models.in_policy(model, "float32"),
                self.tokenizer,
                languages=sides,
                sequence_length=corpus.sequence_length,
            )
            models.save_model(loaded, partial, corpus.texts(held_out=True))


def language_model_kind(model) -> str:
    """Returns the name of a language model's directory in its run."""
    if is_encoder_decoder(model):
        return "encoder_decoder"
    return "decoder" if is_causal(model) else "encoder"
