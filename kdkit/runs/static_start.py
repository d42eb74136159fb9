"""The start of a static sentence encoder: a teacher's vectors of its tokens."""

import logging
import pathlib

import keras
import numpy as np

from kdkit import models
from kdkit.data import EncodedExamples
from kdkit.io.files import staged
from kdkit.models import DenseSettings
from kdkit.models import LoadedModel
from kdkit.recipes import TokenVectors
from kdkit.runs.embedder_parts import EmbedderParts
from kdkit.training.task_data import predict_logits

_log = logging.getLogger(__name__)
FILE = "token_vectors.npz"  # in the run directory
COMPONENTS, VECTORS = "components", "vectors"


class StaticStart:
    """The teacher of a static student, and the student's first table.

    The teacher's vectors are reduced to the principal components of its vectors
    of single tokens, if the student has fewer dimensions. The components and
    the reduced vectors of the tokens are computed once and saved in the run, so
    that a run continues with the same numbers.

    Args:
        teacher: `kdkit.models.LoadedModel`.
        settings: `TokenVectors` of the student.

    Attributes:
        teacher: `keras.Model` with vectors as wide as the student's. Until
            `prepare` its last layer has random weights.
    """

    def __init__(self, teacher: LoadedModel, settings: TokenVectors):
        self._given = teacher
        self._settings = settings
        width = models.embedding_width(teacher.model)
        self.dimensions = min(settings.dimensions, width)
        self.teacher = teacher.model
        self._is_reduced = self.dimensions < width
        if self._is_reduced:
            self.teacher = models.with_dense(
                teacher.model, DenseSettings(self.dimensions, use_bias=False)
            )
        self._vectors = self._token_ids = self._lengths = None

    def make_student(self) -> keras.Model:
        """Returns a student, with the first table once it is known."""
        tokenizer = self._given.tokenizer
        student = models.make_static_embedder(
            tokenizer,
            self.dimensions,
            models.pooling_of(self._given.model).normalize,
        )
        if self._lengths is not None:
            self.set_table(student)
        return student

    def prepare(self, place: pathlib.Path, forward, distribution) -> None:
        """Computes the vectors of the tokens, or reads them from a run.

        Args:
            place: path of the run directory.
            forward: callable from a dict batch to the teacher's own vectors.
            distribution: `kdkit.training.distribution.Distribution`. The chief
                computes and writes.
        """
        file = pathlib.Path(place, FILE)
        with distribution.chief_first():
            known = read_start(file, self._expected)
            if known is None:
                known = self._computed(forward)
                with staged(file) as partial, open(partial, "wb") as opened:
                    np.savez(opened, **known)
        self._vectors = known[VECTORS]
        if self._is_reduced:
            with distribution.scope():
                models.dense_layers(self.teacher)[-1].set_weights(
                    [known[COMPONENTS]]
                )

    def read_texts(self, train: EncodedExamples) -> None:
        """Reads which tokens are frequent in the texts to train on.

        Args:
            train: `kdkit.data.EncodedExamples`.
        """
        self._token_ids, self._lengths = train.token_ids, train.lengths

    def set_table(self, student: keras.Model) -> None:
        """Sets a student's first table.

        Args:
            student: `keras.Model` from `make_student`.
        """
        models.set_token_vectors(
            student,
            self._vectors,
            self._given.tokenizer,
            self._token_ids,
            self._lengths,
            self._settings.sif,
        )

    @property
    def components(self) -> np.ndarray | None:
        """The principal components as columns, `None` if all are used."""
        if not self._is_reduced:
            return None
        (components,) = models.dense_layers(self.teacher)[-1].get_weights()
        return components

    @property
    def _expected(self):
        """The shapes of the saved arrays."""
        width = models.embedding_width(self._given.model)
        size = self._given.tokenizer.vocabulary_size()
        return {
            COMPONENTS: (width, self.dimensions),
            VECTORS: (size, self.dimensions),
        }

    def _computed(self, forward):
        rows = token_rows(self._given.tokenizer)
        _log.info(f"running the teacher on each of {len(rows)} tokens.")
        vectors = predict_logits(forward, rows).astype("float32")
        components = np.eye(vectors.shape[1], dtype="float32")
        if self._is_reduced:
            components = models.principal_components(vectors)
            components = components[:, : self.dimensions].astype("float32")
        return {COMPONENTS: components, VECTORS: vectors @ components}


class StaticParts(EmbedderParts):
    """The parts of an `EmbedderSettings` run of a static student."""

    def make_compared(self):
        self._start = StaticStart(self.teacher, self.settings.student.static)
        return self._start.teacher

    def make_student(self):
        return self._start.make_student()

    def read_components(self):
        self._start.prepare(self.place, self.forward, self.distribution)
        return self._start.components

    def load(self, run):
        super().load(run)
        self._start.read_texts(self.source.train)
        with self.distribution.scope():
            self._start.set_table(self.student)


def token_rows(tokenizer) -> EncodedExamples:
    """Returns each token of a vocabulary as a text of its own.

    Args:
        tokenizer: a keras-hub tokenizer.
    """
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


def read_start(file, shapes: dict) -> dict | None:
    """Returns the arrays in a run's file.

    Args:
        file: path.
        shapes: dict from name to the expected shape.

    Returns:
        Dict of arrays, or `None` if the file is missing, damaged or has other
        shapes.
    """
    try:
        # NumPy leaves a damaged archive open.
        with (
            open(file, "rb") as content,
            np.load(content, allow_pickle=False) as opened,
        ):
            arrays = {name: opened[name] for name in shapes}
    except Exception:  # missing, or damaged anywhere in an archive
        return None
    if {name: one.shape for name, one in arrays.items()} != shapes:
        return None
    return arrays
