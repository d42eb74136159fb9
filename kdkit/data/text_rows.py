"""Rows of text as a model reads them, by their numbers."""

import numpy as np

from kdkit.backends import tf
from kdkit.data.packed_batches import next_tokens
from kdkit.data.packed_batches import plain
from kdkit.data.packing import PADDING
from kdkit.data.packing import PackedCorpus
from kdkit.data.readable_rows import ReadableRows
from kdkit.data.sentence_batches import pair_batch
from kdkit.data.sentences import EncodedSentences


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


class PairRows(ReadableRows):
    """Pairs of sentences: their positions are those of the decoder.

    Args:
        sources: `EncodedSentences`.
        targets: `EncodedSentences`, as many.
    """

    def __init__(self, sources: EncodedSentences, targets: EncodedSentences):
        self._sides = sources, targets
        self.lengths = targets.lengths - 1  # the end is never read
        self.sequence_length = int(self.lengths.max())

    def contents(self):
        sources, targets = (side.sentences() for side in self._sides)
        for source, target in zip(sources, targets, strict=True):
            # So that what ends one side cannot begin the other.
            yield np.array([len(source)], "int32"), source, target

    def inputs(self, rows, padded_length):
        inputs, _, _ = pair_batch(*self._sides, rows)
        return inputs
