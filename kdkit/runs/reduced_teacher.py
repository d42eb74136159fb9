"""A teacher whose vectors are as wide as a narrower student's."""

import logging
import pathlib
from collections.abc import Callable

import keras
import numpy as np

from kdkit.data import EncodedExamples
from kdkit.errors import RunError
from kdkit.io.files import staged
from kdkit.models import DenseSettings, backbone_of
from kdkit.models.embedders import (
    dense_layers,
    principal_components,
    with_encoder,
)
from kdkit.training.source import predict_logits

_log = logging.getLogger(__name__)
FILE = "components.npz"  # in the run directory
COMPONENTS = "components"
MOST_TEXTS = 4096


class ReducedTeacher:
    """A teacher in the principal components of some of its vectors."""

    def __init__(self, teacher: keras.Model, dimensions: int):
        width = teacher.output_shape[-1]
        self.dimensions = min(dimensions, width)
        self.is_reduced = self.dimensions < width
        self.shape = width, self.dimensions
        self.model = teacher
        if self.is_reduced:
            settings = DenseSettings(self.dimensions, use_bias=False)
            self.model = with_encoder(teacher, backbone_of(teacher), settings)

    def first_components(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the principal components of the teacher's vectors."""
        broken = (~np.isfinite(vectors)).any(axis=1).sum()
        if broken:
            raise RunError(
                "A student learns the teacher's vectors. Expected finite "
                f"numbers. Received: {broken} of {len(vectors)} vectors that "
                "are not finite. Use another teacher."
            )
        return principal_components(vectors, self.dimensions)

    def set_components(self, components: np.ndarray, distribution) -> None:
        """Sets the weights of the last layer of a reduced teacher."""
        with distribution.scope():
            dense_layers(self.model)[-1].set_weights([components])


def text_components(
    reduced: ReducedTeacher, texts: EncodedExamples, forward
) -> np.ndarray:
    """Returns the components of a teacher's vectors of up to 4,096 texts."""
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
    """Returns every n-th text, in memory."""
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
    """Returns arrays from a run's file, which is written if it is missing."""
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
    """Returns the arrays in a run's file."""
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
