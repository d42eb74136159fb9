"""Batches that are made while a step is computed."""

from kdkit.backends import tf

BATCHES_AHEAD = 4


def made_ahead(batches, count: int = BATCHES_AHEAD):
    """Returns a data set whose next batches are made in the background.

    How many is not left to TensorFlow to tune: the thread that tunes looks at
    its data set 10 ms after the first batch, then after twice that, up to once
    a minute, and the end of an iterator, which is that of a `fit`, may wait for
    its next look.

    Args:
        batches: `tf.data.Dataset`.
        count: int. How many are made ahead. Defaults to `4`.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(count).with_options(options)
