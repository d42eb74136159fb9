"""Masks of keys and queries, and the inputs that a model takes from a batch."""

from kdkit.late import ops
from kdkit.taps.names import name_tap


def key_mask(padding_mask):
    """Returns the mask of the keys, broadcastable to attention scores.

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
    """Returns a mask in which each token sees itself and earlier tokens.

    Args:
        tokens: tensor of shape `(batch_size, length)`. Only its length counts.

    Returns:
        A bool tensor of shape `(1, 1, length, length)`.
    """
    positions = ops.arange(ops.shape(tokens)[1])
    return (positions[:, None] >= positions[None, :])[None, None]


def padding_masks(x, part=""):
    """Returns the padding masks of a part's queries and keys.

    Both are the same mask in self-attention. For states it is the mask of
    their positions.

    Args:
        x: the inputs of a model.
        part: string, from `kdkit.taps.split_tap`. Defaults to `""`.

    Returns:
        Tuple of two tensors of shape `(batch_size, length)`, each `None` if
        the inputs have no such mask.
    """
    halves = ("decoder", "encoder") if part == "cross" else (part, part)
    if not isinstance(x, dict):
        return None, None
    return tuple(x.get(name_tap(half, "padding_mask")) for half in halves)


def select_inputs(model, x):
    """Returns only the entries of a dict that the model has inputs for.

    So a teacher with segments and a student without them can share one batch.
    Keras itself would match the inputs by their order.
    """
    # Models without a graph have no `input`, and those of one tensor no names.
    names = getattr(model, "input", None)
    if not isinstance(names, dict) or not isinstance(x, dict):
        return x
    return {name: x[name] for name in names}
