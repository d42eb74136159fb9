"""Sums over the replicas of a `tf.distribute` strategy."""

import keras
from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.late import tf


def sum_over_replicas(structure):
    """Sums scalars over the strategy's replicas, without gradient."""
    structure = keras.tree.map_structure(ops.stop_gradient, structure)
    if not on_tensorflow():  # no replicas: one program has the whole batch
        return structure
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return structure
    values = ops.stack(keras.tree.flatten(structure))
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
    return keras.tree.pack_sequence_as(structure, ops.unstack(total))
