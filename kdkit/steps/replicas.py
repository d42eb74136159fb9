"""Sums over the replicas of a `tf.distribute` strategy."""

from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.late import tf


def sum_over_replicas(values) -> list:
    """Sums scalars over the strategy's replicas, without gradient."""
    values = [ops.stop_gradient(value) for value in values]
    if not on_tensorflow():  # no replicas: one program has the whole batch
        return values
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, ops.stack(values))
    return ops.unstack(total, num=len(values))
