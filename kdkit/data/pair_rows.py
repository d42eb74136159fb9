"""Pairs of sentences as an encoder-decoder reads them."""

import numpy as np

from kdkit.data.readable_rows import ReadableRows
from kdkit.data.sentences import EncodedSentences


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


def pair_batch(
    sources: EncodedSentences, targets: EncodedSentences, rows: np.ndarray
) -> tuple:
    """Returns some pairs as arrays `(x, y, sample_weight)`.

    Args:
        sources, targets: as in `pair_batches`.
        rows: int array. The numbers of the pairs.
    """
    source, target = sources.padded(rows), targets.padded(rows)
    before, y = target[:, :-1], target[:, 1:]
    real = y != targets.pad_token_id
    places = np.broadcast_to(np.arange(y.shape[1], dtype="int32"), y.shape)
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": (source != sources.pad_token_id).astype(
            "int32"
        ),
        # The end of a target is predicted and never read.
        "decoder_token_ids": np.where(real, before, targets.pad_token_id),
        "decoder_padding_mask": real.astype("int32"),
        "decoder_positions": np.where(real, places, 0),
    }
    return x, y, real.astype("float32")
