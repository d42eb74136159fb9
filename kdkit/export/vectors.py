"""Embedders in exported files: the width of their vectors."""

import dataclasses

import keras
from keras import ops

from kdkit import models
from kdkit.errors import UsageError

SHORTEST = 1e-6  # the length by which shorter vectors are divided


def with_dimensions(source, dimensions: int | None):
    """Returns an embedder for export whose vectors are shorter."""
    if dimensions is None:
        return source
    vector = source.model.output
    width = vector.shape[-1]
    if not 1 <= dimensions <= width:
        raise UsageError(
            f"dimensions={dimensions} of an embedder with {width} dimensions."
        )
    pooling = models.pooling_of(source.model)
    if dimensions == width:
        return source
    vector = vector[:, :dimensions]
    if pooling.normalize:
        # LiteRT's own normalization makes NaN of the vector 0, which a static
        # embedder returns for a text without words.
        squares = ops.sum(ops.square(vector), axis=-1, keepdims=True)
        vector = vector / ops.maximum(ops.sqrt(squares), SHORTEST)
    model = keras.Model(source.model.input, vector, name=source.model.name)
    return dataclasses.replace(source, model=model)
