"""Functions of batches that are traced once for all of their shapes."""

import keras

from kdkit.backends import tf


def for_any_shape(function):
    """Returns a function of a batch, traced at its first call.

    The padded lengths of the batches differ; without this, each would be traced
    anew.

    Args:
        function: callable of a dict of tensors.

    Returns:
        A callable of dicts of tensors of the same names, dtypes and ranks.
    """
    traced = []

    def run(batch):
        if not traced:
            signature = keras.tree.map_structure(
                lambda tensor: tf.TensorSpec(
                    [None] * len(tensor.shape), tensor.dtype
                ),
                batch,
            )
            traced.append(tf.function(function, input_signature=[signature]))
        return traced[0](batch)

    return run
