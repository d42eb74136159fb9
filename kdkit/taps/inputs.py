"""Batches and the inputs that a model has."""

import keras

from kdkit.errors import UsageError
from kdkit.taps.names import name_tap


def padding_masks(x, part=""):
    """Returns the padding masks of the queries and of the keys of a part.

    They are one in self-attention, and what positions of states have.

    Args:
        x: the inputs of a model.
        part: string, as `kdkit.taps.split_tap` returns it. Defaults to `""`.

    Returns:
        Tuple of two tensors of shape `(batch_size, length)`, each `None` where
        the inputs have none.
    """
    halves = ("decoder", "encoder") if part == "cross" else (part, part)
    if not isinstance(x, dict):
        return None, None
    return tuple(x.get(name_tap(half, "padding_mask")) for half in halves)


def select_inputs(model, x):
    """Leaves out of a dict what the model has no input for.

    A teacher with segments and a student without can share one batch. Keras
    itself would take inputs by their order instead.
    """
    if not isinstance(x, dict) or not isinstance(model, keras.Model):
        return x
    try:
        names = model.input
    except (AttributeError, ValueError):  # not a functional model
        return x
    if not isinstance(names, dict):
        return x
    missing = sorted(set(names) - set(x))
    if missing:
        raise UsageError(
            f"Inputs of model {model.name!r} are missing. Expected "
            f"{sorted(names)}. Received: {sorted(x)}. Add {missing} to the "
            "data set's features."
        )
    return {name: x[name] for name in names}
