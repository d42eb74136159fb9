"""Clipping of gradients that several replicas have a share of."""

import tensorflow as tf

from kdkit.errors import UsageError


def clipped(trained: list, optimizer, num_replicas: int) -> list:
    """Clips what all replicas have together, where the optimizer clips.

    Keras clips the share of each replica, and sums then: the larger the number
    of replicas, the longer the step. What is returned has the sum, clipped,
    divided by the number of replicas. So Keras leaves it as it is, and its sum
    is what one device would have.

    Args:
        trained: list of pairs of a gradient and its variable.
        optimizer: `keras.optimizers.Optimizer`.
        num_replicas: int.

    Returns:
        Pairs likewise; the same ones on one replica or without clipping.

    Raises:
        UsageError: (a `ValueError`) on several replicas in float16.
    """
    if num_replicas == 1:
        return trained
    scaled = getattr(optimizer, "inner_optimizer", None)
    if scaled is not None and any(_clipping(scaled)):
        raise UsageError(
            "Gradients of several replicas cannot be clipped in float16, where "
            "each scales its own. Received: an optimizer that clips, within a "
            f"{type(optimizer).__name__}, on {num_replicas} replicas. Use "
            "bfloat16, one device, or no clipping."
        )
    norm, value, of_all = _clipping(optimizer)
    if not (norm or value or of_all):
        return trained
    gradients, variables = zip(*trained, strict=True)
    if hasattr(optimizer, "without_untrained"):  # before norms are taken
        gradients = optimizer.without_untrained(gradients, variables)
    gradients = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, list(gradients)
    )
    if of_all:
        gradients, _ = tf.clip_by_global_norm(gradients, of_all)
    elif norm:
        gradients = [tf.clip_by_norm(one, norm) for one in gradients]
    else:
        gradients = [tf.clip_by_value(one, -value, value) for one in gradients]
    return [
        (gradient / num_replicas, variable)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _clipping(optimizer):
    return optimizer.clipnorm, optimizer.clipvalue, optimizer.global_clipnorm
