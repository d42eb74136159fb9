"""Packed rows as a model reads them."""

import numpy as np

from kdkit.backends import tf
from kdkit.data.packing import PADDING
from kdkit.data.packing import PackedCorpus
from kdkit.data.readable_rows import ReadableRows


class PackedRows(ReadableRows):
    """Packed text: for a decoder without what it never reads, or as it stands.

    Args:
        corpus: `PackedCorpus`. It stays on disk.
    """

    def __init__(self, corpus: PackedCorpus):
        self._corpus = corpus
        self._is_for_decoder = corpus.stride is not None
        self.sequence_length = corpus.sequence_length - self._is_for_decoder
        self.lengths = np.full(len(corpus), self.sequence_length, "int32")
        # Only the last row may be filled up; its last token is not read.
        filled = int((corpus.rows[-1] != PADDING).sum())
        self.lengths[-1] = filled - self._is_for_decoder

    def contents(self):
        for row, length in zip(self._corpus.rows, self.lengths, strict=True):
            yield (np.ascontiguousarray(row[:length]),)

    def inputs(self, rows, padded_length):
        chosen = tf.constant(self._corpus.rows[rows])
        if not self._is_for_decoder:
            return plain(chosen, None)
        return next_tokens(chosen[:, : padded_length + 1], None)[0]


def next_tokens(rows, seed):
    """Returns `(x, y, weights)` of some rows for a decoder.

    Args:
        rows: int array of shape `(num_rows, sequence_length + 1)`.
        seed: not used; that of what draws.
    """
    del seed
    is_token = rows != PADDING
    ids = tf.where(is_token, rows, 0)
    x = {
        "token_ids": ids[:, :-1],
        "padding_mask": tf.cast(is_token[:, :-1], "int32"),
    }
    return x, ids[:, 1:], tf.cast(is_token[:, 1:], "float32")


def plain(rows, seed):
    """Returns the inputs of an encoder that reads rows as they stand.

    Args:
        rows: int array of shape `(num_rows, sequence_length)`.
        seed: not used; that of what draws.
    """
    del seed
    return {
        "token_ids": rows,
        "segment_ids": tf.zeros_like(rows),
        "padding_mask": tf.ones_like(rows),
    }
