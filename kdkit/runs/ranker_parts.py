"""The parts of runs in which a sentence encoder learns from a cross-encoder."""

import dataclasses

import numpy as np

from kdkit import models
from kdkit.errors import UsageError
from kdkit.models import LoadedModel, Pooling
from kdkit.models.conventions import COSINE, DOT
from kdkit.runs.build import Leg
from kdkit.runs.embedder_parts import TEXTS, EmbedderParts, require_no_prompts
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.inputs import files_digest, model_digest
from kdkit.runs.log import log_model
from kdkit.taps import TEACHER_OUTPUTS, ModelShape, own_names
from kdkit.training.caching import TeacherCaches
from kdkit.training.candidates import candidates_source
from kdkit.training.making import require_length
from kdkit.training.tasks import LOGITS

PAIR_LENGTH = "--set data.pair_length="
HELD_OUT = "queries to measure on"


class RankerParts(EmbedderParts):
    """The parts of an `EmbedderSettings` run on `CandidatesSettings`."""

    def inputs(self):
        data, student = self.settings.data, self.settings.student
        inputs = super().inputs()
        if data.held_out:
            inputs[HELD_OUT] = files_digest(data.held_out)
        if student.copy_from not in (None, "teacher"):
            inputs["student"] = model_digest(student.copy_from)
        return inputs

    def check_conventions(self):
        require_no_prompts(self.conventions)
        similarity = self.conventions.similarity
        if similarity not in (COSINE, DOT):
            raise UsageError(
                "The student's scores are products of vectors. Expected the "
                f"similarity cosine or dot. Received: {similarity}."
            )

    def load_teacher(self):
        teacher = models.load_reranker(self.teacher_place)
        length = self.settings.data.pair_length
        require_length(length, teacher.model, PAIR_LENGTH)
        return teacher

    def make_tokenizer(self):
        return None  # the student's place has one

    def make_student(self):
        made = make_retriever(self.settings, self.teacher)
        self.tokenizer, self.conventions = made.tokenizer, made.conventions
        return made.model

    def make_compared(self):
        return ModelShape(num_classes=2), self._ranker(self.student, 2)

    def _ranker(self, model, num_candidates):
        with self.distribution.scope(), own_names():
            return models.make_ranker(
                model, num_candidates, self.settings.data.scale
            )

    def open_caches(self):
        self.caches = TeacherCaches(
            self.cache_settings,
            [self.teacher.model],
            [self.teacher_place],
            distribution=self.distribution,
            entries=[(LOGITS,)],
        )

    def load(self, run):
        self.source = candidates_source(
            self.settings.data,
            self.task,
            self.tokenizer,
            self.teacher.tokenizer,
            self.place / TEXTS,
            self.conventions,
        )

    def measurements(self):
        source = self.source
        # All processes, because each fills its part of the cache.
        outputs = self.caches.features(None, None)
        scores = source.teacher_outputs(outputs, source.held_out)
        (found,) = scores(np.arange(len(source.held_out)), 0)[TEACHER_OUTPUTS]
        return {
            "teacher": lambda: source.evaluate_teacher(found[LOGITS.name]),
            "student": lambda: source.evaluate(self.start_forward()),
        }

    def legs(self, run, name):
        settings, model = self.settings, self.student
        if name != "student":
            model = self.make_model()
        log_model(run, name, model, settings.student)
        log_model(run, "teacher", self.teacher.model)
        count = self.source.train.num_candidates
        return [
            Leg(
                self._ranker(model, count),
                ModelShape(num_classes=count),
                self.source,
                settings.arms[name],
                caches=self.caches,
                on_text=True,
                measured=model,
            )
        ]


def make_retriever(settings: EmbedderSettings, teacher) -> LoadedModel:
    """Returns the sentence encoder to train, and its tokenizer."""
    student = settings.student
    place = student.checkpoint or student.copy_from
    if place is None or place == "teacher":
        pooling = Pooling(settings.pooling or "mean")
        if place is None:
            backbone = models.student(
                student.config(),
                vocabulary_size=teacher.tokenizer.vocabulary_size(),
            )
        else:
            backbone = models.copy_blocks(teacher.model, student.copy_layers)
        model = models.make_embedder(backbone, pooling)
        return LoadedModel(model, teacher.tokenizer, True)
    loaded = models.load_embedder(place, settings.pooling)
    if not student.copy_layers:
        return loaded
    model = models.dropped_layers(loaded.model, student.copy_layers)
    return dataclasses.replace(loaded, model=model)
