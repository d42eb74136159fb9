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
    if not source.is_embedder:
        raise UsageError(
            "`dimensions` is the width of an embedder's vectors. Received: "
            f"dimensions={dimensions} for a model that returns "
            f"{source.outputs}. Remove it."
        )
    vector = source.model.output
    width = vector.shape[-1]
    if type(dimensions) is not int or not 1 <= dimensions <= width:
        raise UsageError(
            "Invalid value for argument `dimensions`. Expected 1 to "
            f"{width}, the width of the model's vectors. Received: "
            f"dimensions={dimensions!r}."
        )
    if dimensions == width:
        return source
    pooling = models.pooling_of(source.model)
    vector = vector[:, :dimensions]
    if pooling.normalize:
        # LiteRT's own normalization makes NaN of the vector 0, which a static
        # embedder returns for a text without words.
        squares = ops.sum(ops.square(vector), axis=-1, keepdims=True)
        vector = vector / ops.maximum(ops.sqrt(squares), SHORTEST)
    model = keras.Model(source.model.input, vector, name=source.model.name)
    return dataclasses.replace(source, model=model)
