"""What share of a text language models see when they predict a token of it.

LightPAFF, table 8, https://arxiv.org/abs/2004.12817: its "input tokens", here
counted in the batches that a model is measured on. Tokens of the text count
alone: those around it (start, end, languages, padding) are neither seen nor in
the length of a row, and where one of them is predicted is left out. What BERT
and MASS hide counts as hidden, also where a random token or the token itself
stands in its place.
"""

from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np


def masked_share(batches: Iterable, special_token_ids: Sequence[int]) -> float:
    """Returns the share that a masked-language model sees.

    The tokens of a row that are not hidden, over the tokens of the row.

    Args:
        batches: iterable of `(x, y, sample_weight)` as `kdkit.data.Masker`
            makes them.
        special_token_ids: sequence of ints. The tokens that no text spells.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, _, weights in _in_numpy(batches):
        hidden = _places(x["mask_positions"], weights, x["token_ids"].shape)
        seen = _is_text(x["token_ids"], special_token_ids) & ~hidden
        seen &= x["padding_mask"] > 0
        shares.add(_count(seen), _count(seen) + _count(hidden), weights)
    return shares.value


def span_share(batches: Iterable, special_token_ids: Sequence[int]) -> float:
    """Returns the share that MASS sees.

    The tokens of a sentence that are not hidden from the encoder and those that
    the decoder has read, over the tokens of the sentence.

    Args:
        batches: iterable of `(x, y, sample_weight)` as `kdkit.data.SpanMasker`
            makes them.
        special_token_ids: as in `masked_share`.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, _, weights in _in_numpy(batches):
        token_ids = x["encoder_token_ids"]
        # A token is predicted at the place before its own.
        hidden = _places(x["decoder_positions"] + 1, weights, token_ids.shape)
        seen = _is_text(token_ids, special_token_ids) & ~hidden
        seen &= x["encoder_padding_mask"] > 0
        read = _is_text(x["decoder_token_ids"], special_token_ids)
        read &= x["decoder_padding_mask"] > 0
        shares.add(
            _count(seen) + read.cumsum(axis=1),
            _count(seen) + _count(hidden),
            weights,
        )
    return shares.value


def next_token_share(
    batches: Iterable, special_token_ids: Sequence[int]
) -> float:
    """Returns the share that a causal language model sees.

    The tokens of a row before the predicted one, over the tokens of the row,
    the last one of which is predicted and never read.

    Args:
        batches: iterable of `(x, y, sample_weight)` as
            `kdkit.data.next_token_evaluation_batches` makes them.
        special_token_ids: as in `masked_share`.

    Returns:
        Float, a mean over the predicted tokens.
    """
    shares = _Mean()
    for x, labels, weights in _in_numpy(batches):
        read = _is_text(x["token_ids"], special_token_ids)
        read &= x["padding_mask"] > 0
        weights = weights * _is_text(labels, special_token_ids)
        # A row that is not full has its last token among those that are read.
        last = weights[:, -1:] > 0
        shares.add(read.cumsum(axis=1), _count(read) + last, weights)
    return shares.value


class _Mean:
    """A weighted mean of quotients, added up batch by batch."""

    def __init__(self):
        self._sum = self._total = 0.0

    def add(self, seen, length, weights):
        # Rows without text have nothing to predict.
        shares = seen / np.maximum(length, 1)
        self._sum += float((weights * shares).sum())
        self._total += float(weights.sum())

    @property
    def value(self):
        return self._sum / self._total


def _in_numpy(batches):
    for x, labels, weights in batches:
        inputs = {name: np.asarray(value) for name, value in x.items()}
        yield inputs, np.asarray(labels), np.asarray(weights)


def _is_text(token_ids, special_token_ids):
    return ~np.isin(token_ids, special_token_ids)


def _places(positions, weights, shape):
    """Where rows have a position of weight above 0."""
    found = np.zeros(shape, bool)
    rows, columns = np.nonzero(weights)
    found[rows, positions[rows, columns]] = True
    return found


def _count(is_there):
    return is_there.sum(axis=1, keepdims=True)
