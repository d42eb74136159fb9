"""A run's teacher caches, and the cached features for a stage's batches."""

import dataclasses
import json
import logging
import pathlib

import numpy as np

from kdkit import models
from kdkit.distillation import teacher_entries
from kdkit.io.files import digest_of_text
from kdkit.models import LoadedModel, as_tokenizer
from kdkit.recipes.stages import Stage
from kdkit.runs import events
from kdkit.runs.directory import RunDirectory
from kdkit.runs.inputs import model_digest
from kdkit.settings import to_dict
from kdkit.taps import describe
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.teacher_cache.cache import TeacherCache
from kdkit.teacher_cache.index import require_disk_space
from kdkit.teacher_cache.reading import OutputsOfTeachers, ReducedVectors
from kdkit.training.data_settings import CacheSettings
from kdkit.training.distribution import ONE_DEVICE, Distribution

_log = logging.getLogger(__name__)

READING = 2  # version of loading checkpoints; increased if outputs change


class TeacherCaches:
    """The caches of all teachers of a run."""

    def __init__(
        self,
        settings: CacheSettings,
        teachers: list[LoadedModel],
        places: list,
        part: tuple[int, int] | None = None,
        distribution: Distribution = ONE_DEVICE,
    ):
        self._distribution = distribution
        self._read = [set() for _ in teachers]
        self._expected = [set() for _ in teachers]
        self._shapes = [describe(teacher.model) for teacher in teachers]
        self._components = None
        self._first = teachers[0].model
        self._precision = settings.precision
        self._directory = directory = pathlib.Path(settings.directory)
        fingerprints = [
            {
                "teacher": model_digest(place),
                **_reading(place),
                **_pooling(teacher.model),
                "vocabulary": _vocabulary_digest(teacher.tokenizer),
            }
            for teacher, place in zip(teachers, places, strict=True)
        ]

        self._caches = [
            TeacherCache(
                directory
                if len(teachers) == 1
                else directory / f"teacher_{number}",
                teacher.model,
                fingerprint,
                settings.precision,
                _log.info,
                part,
            )
            for number, (teacher, fingerprint) in enumerate(
                zip(teachers, fingerprints, strict=True), start=1
            )
        ]

    def reduce(self, components: np.ndarray) -> None:
        """Lets objectives read sentence embeddings in fewer dimensions."""
        self._components = components
        width = components.shape[1]
        self._shapes = [
            dataclasses.replace(shape, embedding_width=width)
            for shape in self._shapes
        ]

    def expect(self, stages, student) -> None:
        """Registers the stages that will read, so that teachers run once."""
        for stage in stages:
            if not stage.objectives:
                continue
            for expected, entries in zip(
                self._expected,
                self._entries(stage, student),
                strict=True,
            ):
                expected.update(entries)

    def features(self, stage: Stage, student):
        """Returns a function for adding the teachers' outputs to batches."""
        entries_of = self._entries(stage, student)
        for read, entries in zip(self._read, entries_of, strict=True):
            read.update(entry.name for entry in entries)

        def outputs(encoded):
            asked = list(
                zip(self._caches, entries_of, self._expected, strict=True)
            )
            if len(asked) > 1:  # before the first teacher writes
                size = sum(
                    cache.needed(encoded, entries, expected)
                    for cache, entries, expected in asked
                )
                require_disk_space(self._directory, size)
            return [
                cache.outputs(encoded, entries, expected)
                for cache, entries, expected in asked
            ]

        def features(encoded):
            with self._distribution.chief_first():
                return OutputsOfTeachers(map(self._reduced, outputs(encoded)))

        return features

    def _reduced(self, outputs):
        """The outputs, with sentence embeddings in the components."""
        has_vectors = SENTENCE_EMBEDDING in outputs.signature
        if self._components is None or not has_vectors:
            return outputs
        normalize = models.pooling_of(self._first).normalize
        return ReducedVectors(outputs, self._components, normalize)

    def _entries(self, stage, student):
        """The entries of each teacher that a stage reads."""
        shape = describe(student)
        return [
            teacher_entries(stage.weighted_objectives(), teacher, shape)
            for teacher in self._shapes
        ]

    def relative_errors(self) -> list[dict]:
        """The relative error of each output that was read, for each teacher."""
        return [
            {name: cache.relative_error(name) for name in sorted(read)}
            for cache, read in zip(self._caches, self._read, strict=True)
        ]

    def log(self, run: RunDirectory) -> None:
        """Logs the precision and errors of the outputs that were read, once."""
        if not run.events(events.TeacherCache):
            run.log(
                events.TeacherCache(
                    precision=self._precision,
                    relative_errors=tuple(self.relative_errors()),
                )
            )


def _reading(place):
    """The version of loading a Hugging Face checkpoint, for the cache's key."""
    is_read = models.find(place).is_checkpoint
    return {"checkpoint_reading": READING} if is_read else {}


def _pooling(teacher):
    """The pooling of a sentence encoder, which may be in no file of it."""
    if not models.is_embedder(teacher):
        return {}
    return {"pooling": json.dumps(to_dict(models.pooling_of(teacher)))}


def _vocabulary_digest(tokenizer):
    """The checksum of everything that decides a tokenizer's ids."""
    return digest_of_text(json.dumps(as_tokenizer(tokenizer).definition))
