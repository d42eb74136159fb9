"""Which keys a query sees: those that are not padding, or stand behind it."""

from keras import ops


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
