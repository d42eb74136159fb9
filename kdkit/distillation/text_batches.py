"""Batches of encoded texts, each as long as its longest text needs.

A preprocessor pads every text to its `sequence_length`, 512 for most
checkpoints.
"""

import random

import keras
import numpy as np

from kdkit.backends import on_tensorflow
from kdkit.late import tf

# The lengths of batches, up to the preprocessor's. XLA compiles each of them.
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
MASK = "padding_mask"  # `"decoder_padding_mask"` in an encoder-decoder


def shorten(data, has_positions: bool, numpy=np):
    """Cuts the padding that all texts of a batch have at their end."""
    x, y, sample_weight = data
    if not isinstance(x, dict):
        return x, y, sample_weight
    cuts = {
        name.removesuffix(MASK): (mask.shape[1], _end(mask, numpy))
        for name, mask in x.items()
        if name.endswith(MASK) and len(mask.shape) == 2
    }

    def cut(value, name):
        prefixes = [prefix for prefix in cuts if name.startswith(prefix)]
        if value is None or len(value.shape) < 2 or not prefixes:
            return value
        length, end = cuts[max(prefixes, key=len)]
        return value[:, :end] if value.shape[1] == length else value

    x = {name: cut(value, name) for name, value in x.items()}
    if has_positions:
        y, sample_weight = cut(y, "decoder_"), cut(sample_weight, "decoder_")
    return x, y, sample_weight


def _end(mask, numpy):
    """Returns the smallest of the lengths that has all real positions."""
    length = mask.shape[1]
    lengths = np.array([*(one for one in LENGTHS if one < length), length])
    real = numpy.arange(1, length + 1) * numpy.asarray(mask, "int64")
    fitting = numpy.where(lengths >= numpy.max(real), lengths, length)
    return numpy.min(fitting)


def text_batches(data, batch_size, rows, shuffle, has_positions):
    """Returns batches of encoded texts, as data for `fit`."""
    x, y, sample_weight = data
    if y is None:
        sample_weight = None  # as in Keras
    arrays = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
    arrays = keras.tree.map_structure(lambda one: one[rows], arrays)
    if not on_tensorflow():
        return _Batches(arrays, batch_size, shuffle, has_positions)
    count = len(keras.tree.flatten(arrays)[0])
    numbers = tf.data.Dataset.range(count)
    if shuffle:
        numbers = numbers.shuffle(count)
    tensors = keras.tree.map_structure(tf.constant, arrays)

    def batch(numbers):
        return _batch(
            tensors,
            lambda one: tf.gather(one, numbers),
            has_positions,
            tf.experimental.numpy,
        )

    return numbers.batch(batch_size).map(batch, -1).prefetch(-1)


def _batch(arrays, take, *settings):
    """Returns some rows of arrays as a batch."""
    batch = keras.tree.map_structure(take, arrays)
    data = keras.utils.unpack_x_y_sample_weight(batch)
    return keras.utils.pack_x_y_sample_weight(*shorten(data, *settings))


class _Batches(keras.utils.PyDataset):
    """The batches for backends next to which TensorFlow may be missing."""

    def __init__(self, arrays, batch_size, shuffle, has_positions):
        super().__init__()
        self._arrays = arrays
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._has_positions = has_positions
        self._order = list(range(len(keras.tree.flatten(arrays)[0])))

    def __len__(self):
        return -(-len(self._order) // self._batch_size)

    def __getitem__(self, number):
        begin = number * self._batch_size
        rows = self._order[begin : begin + self._batch_size]
        return _batch(self._arrays, lambda one: one[rows], self._has_positions)

    def on_epoch_begin(self):
        if self._shuffle:
            random.shuffle(self._order)
