"""A run's teacher caches, and the cached features for a stage's batches."""

import hashlib
import json
import logging

import keras
import numpy as np

from kdkit import models
from kdkit.config.data import Cache
from kdkit.distillation import teacher_entries
from kdkit.models.embedders import dense_layers
from kdkit.models.places import model_digest
from kdkit.recipes.stages import Stage
from kdkit.settings import to_dict
from kdkit.taps import Entry, describe
from kdkit.teacher_cache.cache import OutputsOfTeachers, TeacherCache
from kdkit.training.distribution import ONE_DEVICE, Distribution

_log = logging.getLogger(__name__)

READING = 2  # version of loading checkpoints; increased if outputs change


class TeacherCaches:
    """The caches of all teachers of a run."""

    def __init__(
        self,
        cache: Cache,
        teachers: list[keras.Model],
        places: list,
        part: tuple[int, int] | None = None,
        distribution: Distribution = ONE_DEVICE,
        entries: list[tuple[Entry, ...]] | None = None,
    ):
        # Of a cross-encoder, whose outputs are not those of the student.
        self._fixed = entries
        self._distribution = distribution
        self.precision = cache.precision
        self._expected = [set(one) for one in entries or [()] * len(teachers)]
        self._shapes = list(map(describe, teachers))
        self._caches = [
            TeacherCache(
                cache.directory,
                teacher,
                _content(teacher, place),
                cache.precision,
                _log.info,
                part,
            )
            for teacher, place in zip(teachers, places, strict=True)
        ]

    def expect(self, stages, student) -> None:
        """Registers the stages that will read, so that teachers run once."""
        for stage in stages:
            entries_of = self._entries(stage, student)
            for expected, entries in zip(
                self._expected, entries_of, strict=True
            ):
                expected.update(entries)

    def features(self, stage: Stage, student):
        """Returns a function for adding the teachers' outputs to batches."""
        entries_of = self._entries(stage, student)

        def features(encoded):
            asked = zip(self._caches, entries_of, self._expected, strict=True)
            with self._distribution.chief_first():
                return OutputsOfTeachers(
                    cache.outputs(encoded, entries, expected)
                    for cache, entries, expected in asked
                )

        return features

    def _entries(self, stage, student):
        """The entries of each teacher that a stage reads."""
        if self._fixed is not None:
            return self._fixed
        shape = describe(student)
        return [
            teacher_entries(stage.weighted_objectives(), teacher, shape)
            for teacher in self._shapes
        ]

    def relative_errors(self) -> list[dict]:
        """The relative error of each output that is read, for each teacher."""
        return [
            {
                one.name: cache.relative_error(one.name)
                for one in sorted(entries)
            }
            for cache, entries in zip(self._caches, self._expected, strict=True)
        ]


def _content(teacher, place):
    """Everything that a teacher's outputs for given tokens depend on."""
    content = {"teacher": model_digest(place)}
    if models.find(place).is_checkpoint:
        content["checkpoint_reading"] = READING
    if models.is_embedder(teacher):  # its head may be in no file
        content["pooling"] = json.dumps(to_dict(models.pooling_of(teacher)))
        content["dense"] = [
            hashlib.sha256(np.ascontiguousarray(weight)).hexdigest()
            for layer in dense_layers(teacher)
            for weight in layer.get_weights()
        ]
    return content
