"""A distribution by its most probable classes; all others as one."""

from keras import ops

# As a log-probability less than the least of float32, and finite.
NOTHING = -1e4


def top_classes(logits, top_k: int, temperature: float = 1.0):
    """Returns the log-probabilities of the most probable classes.

    Of classes that are equally probable those of lower numbers come first.

    Args:
        logits: Tensor of shape `(..., num_classes)`.
        top_k: int. How many classes stand for themselves; with `num_classes`
            or more, all do.
        temperature: float. What the logits are divided by. Defaults to `1.0`.

    Returns:
        `float32` tensor of shape `(..., 2 * top_k + 1)`: the log-probabilities
        of the first classes, that of all others together, and the numbers of
        the first classes, which are exact up to 2²⁴. Where there are no others
        theirs is −10,000.

    >>> top_classes([[0.0, 50.0, 0.0]], top_k=1).shape
    TensorShape([1, 3])
    """
    logits = ops.convert_to_tensor(logits, dtype="float32") / temperature
    first, ids = ops.top_k(logits, min(top_k, logits.shape[-1]))
    return ops.concatenate(
        [_with_others(first, logits, ids), ops.cast(ids, "float32")], axis=-1
    )


def split_top_classes(top):
    """Returns the log-probabilities of k + 1 classes, and the k numbers.

    What was rounded sums to 1 again.

    Args:
        top: Tensor, as `top_classes` returns it.
    """
    count = top.shape[-1] // 2
    log_probs = ops.log_softmax(top[..., : count + 1])
    return log_probs, ops.cast(top[..., count + 1 :], "int32")


def log_probs_of(logits, ids):
    """Returns the log-probabilities of some classes, and of all others.

    Args:
        logits: Tensor of shape `(..., num_classes)`.
        ids: `int32` tensor of shape `(..., top_k)`. The classes.

    Returns:
        Tensor of shape `(..., top_k + 1)`.
    """
    first = ops.take_along_axis(logits, ids, axis=-1)
    return _with_others(first, logits, ids)


def _with_others(first, logits, ids):
    """The log-probabilities of first classes and of all others as one.

    Which need no more of the others than one logit.
    """
    others = _logit_of_others(logits, ids)
    return ops.log_softmax(ops.concatenate([first, others], axis=-1))


def _logit_of_others(logits, ids):
    """What all classes but some are as one, of shape `(..., 1)`."""
    num_classes, count = logits.shape[-1], ids.shape[-1]
    nothing = ops.stop_gradient(
        ops.max(logits, axis=-1, keepdims=True) + NOTHING
    )
    nothing = ops.broadcast_to(nothing, ops.shape(ids))
    flat = ops.reshape(logits, (-1, num_classes))
    ids = ops.reshape(ids, (-1, 1))
    rows = ops.repeat(ops.arange(ops.shape(flat)[0], dtype="int32"), count)
    flat = ops.scatter_update(
        flat,
        ops.concatenate([rows[:, None], ops.cast(ids, "int32")], axis=1),
        ops.reshape(nothing, (-1,)),
    )
    others = ops.logsumexp(flat, axis=-1)
    return ops.reshape(others, (*ops.shape(logits)[:-1], 1))
