"""Trained and untrained weights of a model, and their number."""

import weakref
from collections.abc import Iterable, Sequence

import numpy as np

from kdkit.errors import UsageError

# Variables by `id`, while they exist.
_TRAINED = weakref.WeakValueDictionary()
_PASSED_OVER = weakref.WeakValueDictionary()


def note_gradients(variables: Sequence, has_gradient: Iterable) -> None:
    """Records which variables a step trains; raises an error for none."""
    trained = [*has_gradient]
    for variable, is_trained in zip(variables, trained, strict=True):
        known = _TRAINED if is_trained else _PASSED_OVER
        known[id(variable)] = variable
    if not any(trained):
        raise UsageError("The loss has no gradient in any trainable weight.")


def untrained_weights(model) -> dict[str, list]:
    """Returns the weights of a trained model that were never trained."""
    if not any(_is_in(_TRAINED, weight) for weight in model.weights):
        return {}
    optimizer = getattr(model, "optimizer", None)
    was_fit = optimizer is not None and int(optimizer.iterations.numpy()) > 0
    return {
        path: weights
        for path, weights in _by_layer(model.weights).items()
        if not any(_is_in(_TRAINED, weight) for weight in weights)
        and (
            _has_zeros(weights)
            or (
                not was_fit
                and all(_is_in(_PASSED_OVER, weight) for weight in weights)
                and not any(len(weight.shape) == 1 for weight in weights)
            )
        )
    }


def layers_at_their_start(weights: Iterable) -> list[str]:
    """Returns the paths of layers with a weight that contains only zeros."""
    return [
        path for path, some in _by_layer(weights).items() if _has_zeros(some)
    ]


def _is_in(known, variable):
    return known.get(id(variable)) is variable


def _by_layer(weights):
    """Returns floating-point weights by the path of their layer."""
    layers = {}
    for weight in weights:
        if "float" in str(weight.dtype):
            layer, _, _ = weight.path.rpartition("/")
            layers.setdefault(layer, []).append(weight)
    return layers


def _has_zeros(weights):
    return any(
        len(weight.shape) and not np.any(weight.numpy()) for weight in weights
    )


TABLE = "candidates"  # a layer with the classes that a token can have


def count_parameters(model) -> int:
    """Returns a model's number of parameters."""
    parts = [model, *getattr(model, "layers", ())]
    tables = [
        layer
        for part in parts
        for layer in getattr(part, "layers", ())
        if layer.name == TABLE
    ]
    return model.count_params() - sum(table.count_params() for table in tables)
