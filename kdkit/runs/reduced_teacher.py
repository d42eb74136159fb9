"""A teacher whose vectors are as wide as a narrower student's."""

import logging
import pathlib
from collections.abc import Callable

import keras
import numpy as np

from kdkit import models
from kdkit.data import EncodedExamples
from kdkit.errors import RunError
from kdkit.io.files import staged
from kdkit.models import DenseSettings
from kdkit.training.task_data import predict_logits

_log = logging.getLogger(__name__)
FILE = "components.npz"  # in the run directory
COMPONENTS = "components"
MOST_TEXTS = 4096


class ReducedTeacher:
    """A teacher in the principal components of some of its vectors.

    Args:
        teacher: `keras.Model`, a sentence encoder.
        dimensions: int. The width of the student's vectors.

    Attributes:
        model: `keras.Model` whose vectors have at most `dimensions` dimensions.
            It is `teacher` itself if that is not wider. Until `set_components`
            the last layer of a reduced one has random weights.
        dimensions: int. The width of its vectors.
        is_reduced: bool.
        shape: tuple of ints. The shape of the components,
            `(width, dimensions)`.
    """

    def __init__(self, teacher: keras.Model, dimensions: int):
        width = models.embedding_width(teacher)
        self.dimensions = min(dimensions, width)
        self.is_reduced = self.dimensions < width
        self.shape = width, self.dimensions
        self.model = teacher
        if self.is_reduced:
            self.model = models.with_dense(
                teacher, DenseSettings(self.dimensions, use_bias=False)
            )

    def first_components(self, vectors: np.ndarray) -> np.ndarray:
        """Returns `kdkit.models.principal_components` of the teacher's vectors.

        Args:
            vectors: float array of shape `(num_vectors, width)`.

        Raises:
            RunError: if a vector is not finite.
            UsageError: (a `ValueError`) if there are too few vectors.
        """
        broken = (~np.isfinite(vectors)).any(axis=1).sum()
        if broken:
            raise RunError(
                "A student learns the teacher's vectors. Expected finite "
                f"numbers. Received: {broken} of {len(vectors)} vectors that "
                "are not finite. Use another teacher."
            )
        return models.principal_components(vectors, self.dimensions)

    def set_components(self, components: np.ndarray, distribution) -> None:
        """Sets the weights of the last layer of a reduced teacher.

        Args:
            components: array of shape `(width, dimensions)`.
            distribution: `kdkit.training.distribution.Distribution`.
        """
        with distribution.scope():
            models.dense_layers(self.model)[-1].set_weights([components])


def text_components(
    reduced: ReducedTeacher, texts: EncodedExamples, forward
) -> np.ndarray:
    """Returns the components of a teacher's vectors of up to 4,096 texts.

    Args:
        reduced: `ReducedTeacher`.
        texts: `kdkit.data.EncodedExamples` with the teacher's tokens.
        forward: callable from a dict batch to the teacher's own vectors.

    Raises:
        RunError: if a vector is not finite.
        UsageError: (a `ValueError`) if there are too few texts.
    """
    chosen = evenly_chosen(texts, MOST_TEXTS)
    _log.info(
        f"running the teacher on {len(chosen)} texts for their "
        f"{reduced.dimensions} principal components."
    )
    vectors = predict_logits(forward, chosen).astype("float64")
    components = reduced.first_components(vectors)
    centered = vectors - vectors.mean(axis=0)
    explained = np.square(centered @ components).sum()
    share = explained / max(np.square(centered).sum(), np.finfo(float).tiny)
    _log.info(f"the components have {share:.1%} of the vectors' variance.")
    return components


def evenly_chosen(texts: EncodedExamples, most: int) -> EncodedExamples:
    """Returns every n-th text, in memory.

    Args:
        texts: `kdkit.data.EncodedExamples`, one sequence per example.
        most: int. The number of texts, if there are so many.
    """
    count = min(most, len(texts))
    rows = np.arange(count) * len(texts) // count
    ids = np.concatenate([texts.row(row) for row in rows])
    return EncodedExamples(
        token_ids=ids.astype("int32"),
        segment_ids=np.zeros(len(ids), "int32"),
        lengths=np.asarray(texts.lengths)[rows],
        labels=None,
        sequence_length=texts.sequence_length,
        num_truncated=0,
        pad_token_id=texts.pad_token_id,
    )


def saved_arrays(
    file, shapes: dict, compute: Callable[[], dict], distribution
) -> dict:
    """Returns arrays from a run's file, which is written if it is missing.

    Args:
        file: path of the `.npz` file.
        shapes: dict from name to the expected shape.
        compute: callable without arguments that returns the arrays.
        distribution: `kdkit.training.distribution.Distribution`. The chief
            computes and writes, and the others read.
    """
    with distribution.chief_first():
        arrays = read_arrays(file, shapes)
        if arrays is None:
            arrays = compute()
            with (
                staged(pathlib.Path(file)) as partial,
                open(partial, "wb") as opened,
            ):
                np.savez(opened, **arrays)
    return arrays


def read_arrays(file, shapes: dict) -> dict | None:
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
