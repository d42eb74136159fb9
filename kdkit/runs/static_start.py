"""The start of a static sentence encoder: a teacher's vectors of its tokens."""

import functools
import logging
import pathlib

import keras
import numpy as np

from kdkit import models
from kdkit.data import EncodedExamples
from kdkit.models import LoadedModel
from kdkit.recipes import TokenVectors
from kdkit.runs.embedder_parts import EmbedderParts
from kdkit.runs.reduced_teacher import COMPONENTS, ReducedTeacher, saved_arrays
from kdkit.training.source import predict_logits

_log = logging.getLogger(__name__)
FILE = "token_vectors.npz"  # in the run directory
VECTORS = "vectors"


class StaticStart:
    """The teacher of a static student, and the student's first table."""

    def __init__(self, teacher: LoadedModel, settings: TokenVectors):
        self._given = teacher
        self._settings = settings
        self.reduced = ReducedTeacher(teacher.model, settings.dimensions)
        self._vectors = self._token_ids = self._lengths = None

    def make_student(self) -> keras.Model:
        """Returns a student, with the first table once it is known."""
        student = models.make_static_embedder(
            self._given.tokenizer,
            self.reduced.dimensions,
            models.pooling_of(self._given.model).normalize,
        )
        if self._vectors is not None:
            self.set_table(student)
        return student

    def prepare(
        self, place: pathlib.Path, forward, distribution, train: EncodedExamples
    ) -> np.ndarray | None:
        """Computes the vectors of the tokens, or reads them from a run."""
        dimensions = self.reduced.dimensions
        size = self._given.tokenizer.vocabulary_size()
        known = saved_arrays(
            pathlib.Path(place, FILE),
            {COMPONENTS: self.reduced.shape, VECTORS: (size, dimensions)},
            lambda: self._computed(forward),
            distribution,
        )
        self._vectors = known[VECTORS]
        self._token_ids, self._lengths = train.token_ids, train.lengths
        return known[COMPONENTS] if self.reduced.is_reduced else None

    def set_table(self, student: keras.Model) -> None:
        """Sets a student's first table. `prepare` is called before."""
        models.set_token_vectors(
            student,
            self._vectors,
            self._given.tokenizer,
            self._token_ids,
            self._lengths,
            self._settings.sif,
        )

    def _computed(self, forward):
        rows = token_rows(self._given.tokenizer)
        _log.info(f"running the teacher on each of {len(rows)} tokens.")
        vectors = predict_logits(forward, rows).astype("float32")
        components = np.eye(vectors.shape[1], dtype="float32")
        if self.reduced.is_reduced:
            components = self.reduced.first_components(vectors)
        return {COMPONENTS: components, VECTORS: vectors @ components}


class StaticParts(EmbedderParts):
    """The parts of an `EmbedderSettings` run of a static student."""

    @functools.cached_property
    def _start(self):
        return StaticStart(self.teacher, self.settings.student.static)

    def make_student(self):
        return self._start.make_student()

    def make_reduced(self):
        return self._start.reduced

    def read_components(self):
        components = self._start.prepare(
            self.place, self.forward, self.distribution, self.source.train
        )
        with self.distribution.scope():
            self._start.set_table(self.student)
        return components


def token_rows(tokenizer) -> EncodedExamples:
    """Returns each token of a vocabulary as a text of its own."""
    size = tokenizer.vocabulary_size()
    ids = np.full((size, 3), tokenizer.end_token_id, "int32")
    ids[:, 0], ids[:, 1] = tokenizer.start_token_id, np.arange(size)
    return EncodedExamples(
        token_ids=ids.reshape(-1),
        segment_ids=np.zeros(ids.size, "int32"),
        lengths=np.full(size, 3, "int32"),
        labels=None,
        sequence_length=3,
        num_truncated=0,
        pad_token_id=tokenizer.pad_token_id,
    )
