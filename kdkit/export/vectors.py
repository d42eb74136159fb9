"""Embedders in exported files: the width of their vectors."""

import dataclasses

import keras

from kdkit import models
from kdkit.errors import UsageError


def with_dimensions(source, dimensions: int | None):
    """Returns an embedder for export whose vectors are shorter.

    As in Matryoshka embedders, the first numbers of each vector remain. If the
    embedder's vectors have length 1, the shorter ones get length 1 too.

    Args:
        source: `Exportable`.
        dimensions: int or `None`, the embedder's width.

    Raises:
        UsageError: (a `ValueError`) if the model is not an embedder, or its
            vectors have fewer dimensions.
    """
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
        vector = keras.layers.UnitNormalization()(vector)
    model = keras.Model(source.model.input, vector, name=source.model.name)
    return dataclasses.replace(source, model=model)
