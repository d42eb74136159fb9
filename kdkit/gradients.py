"""Gradients as the formulas of optimisers mean them."""

from kdkit.backends import on_tensorflow
from kdkit.backends import tf


def whole(gradient):
    """Returns a gradient as one tensor, of which each row stands once.

    TensorFlow gives the gradient of word embeddings as slices, one for each
    token of the batch. Keras' Adam squares them one by one, so that the second
    moment of a word which occurs n times is the sum of n squares and not the
    square of the sum: up to n times too small, and the word's step too long. A
    row of segment embeddings occurs thousands of times. Other backends give one
    tensor as it is.

    Args:
        gradient: tensor, `tf.IndexedSlices` or `None`.

    Returns:
        Tensor of the weight's shape, or `None`.
    """
    if gradient is None or not on_tensorflow():
        return gradient
    return tf.convert_to_tensor(gradient)
