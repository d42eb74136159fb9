"""Masks of keys and queries, and the inputs of a batch that a model has."""

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.taps.names import name_tap


def key_mask(padding_mask):
    """Returns a mask of the keys.

    Args:
        padding_mask: `None` or tensor of any dtype and of shape `(batch_size,
            key_length)`, true or 1 where there is a token.

    Returns:
        `None`, or a bool tensor of shape `(batch_size, 1, 1, key_length)`.
    """
    if padding_mask is None:
        return None
    return ops.cast(padding_mask, "bool")[:, None, None, :]


def causal_mask(tokens):
    """Returns a mask under which tokens see themselves and those before.

    Args:
        tokens: tensor of shape `(batch_size, length)`. Its values do not count.

    Returns:
        A bool tensor of shape `(1, 1, length, length)`.
    """
    positions = ops.arange(ops.shape(tokens)[1])
    return (positions[:, None] >= positions[None, :])[None, None]


def both(mask, other):
    """Returns where both masks are true, each of which may be `None`."""
    if mask is None or other is None:
        return other if mask is None else mask
    return ops.logical_and(mask, other)


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
