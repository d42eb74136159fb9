"""MASS's spans: their sizes and positions, and the inputs of both halves."""

import numpy as np
import pytest
import tensorflow as tf

from kdkit.data import SpanMasker, SpanMasking

PAD, END, LANGUAGE, MASK, FIRST = 0, 3, 5, 4, 6
VOCABULARY_SIZE = 1000


class Tokenizer:
    """The ids that a masker asks for."""

    pad_token_id = PAD
    mask_token_id = MASK

    @property
    def special_token_ids(self):
        return [PAD, 2, END, MASK, LANGUAGE]

    def get_vocabulary(self):
        return [f"w{number}" for number in range(VOCABULARY_SIZE)]


def rows_of(*lengths):
    """Rows of these sentence lengths, whose tokens all differ."""
    rows = np.full((len(lengths), max(lengths) + 2), PAD, "int32")
    for row, length in enumerate(lengths):
        sentence = FIRST + 100 * row + np.arange(length)
        rows[row, : length + 2] = [LANGUAGE, *sentence, END]
    return rows


def mask(rows, seed=0, **masking):
    masker = SpanMasker(SpanMasking(**masking), Tokenizer())
    x, y, weight = masker(tf.constant(rows), tf.constant([seed, 7]))
    return (
        {name: value.numpy() for name, value in x.items()},
        y.numpy(),
        weight.numpy(),
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_decoder_predicts_one_span_of_half_the_sentence(seed):
    lengths = (1, 2, 5, 8, 9)
    rows = rows_of(*lengths)
    x, y, weight = mask(rows, seed)
    for row, length in enumerate(lengths):
        size = max(1, round(length / 2))
        assert weight[row].sum() == size
        start = list(rows[row]).index(y[row, 0])
        span = rows[row, start : start + size]
        np.testing.assert_array_equal(y[row, :size], span)
        assert start >= 1
        assert start + size <= length + 1  # neither language nor end
        # What it sees: the language, then the span, as far as it is written.
        np.testing.assert_array_equal(
            x["decoder_token_ids"][row, :size], [LANGUAGE, *span[:-1]]
        )
        np.testing.assert_array_equal(
            x["decoder_positions"][row, :size], np.arange(size) + start - 1
        )
        outside = np.delete(np.arange(length + 2), start + np.arange(size))
        np.testing.assert_array_equal(
            x["encoder_token_ids"][row, outside], rows[row, outside]
        )
    padding = weight == 0
    assert not y[padding].any()
    assert not x["decoder_token_ids"][padding].any()
    np.testing.assert_array_equal(x["decoder_padding_mask"], ~padding)
    np.testing.assert_array_equal(x["encoder_padding_mask"], rows != PAD)


def test_positions_of_a_whole_sentence_are_those_of_fine_tuning():
    x, y, _ = mask(rows_of(6), share=1.0)
    np.testing.assert_array_equal(x["decoder_positions"], [np.arange(6)])
    np.testing.assert_array_equal(y, [FIRST + np.arange(6)])


def test_every_place_is_as_likely():
    rows = np.tile(rows_of(9), (4000, 1))
    _, y, _ = mask(rows)
    starts, counts = np.unique(y[:, 0] - FIRST, return_counts=True)
    size = round(9 / 2)
    np.testing.assert_array_equal(starts, np.arange(9 - size + 1))
    expected = 4000 / len(starts)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_hidden_tokens_are_masked_random_or_kept_as_8_to_1_to_1():
    rows = np.tile(rows_of(40), (1000, 1))
    x, y, _ = mask(rows)
    start = y[:, :1] - FIRST + 1
    places = start + np.arange(20)
    seen = np.take_along_axis(x["encoder_token_ids"], places, axis=1)
    kept, masked = seen == y, seen == MASK
    count = seen.size
    for found, share in ((masked, 0.8), (kept, 0.1), (~masked & ~kept, 0.1)):
        error = np.sqrt(share * (1 - share) / count)
        assert abs(found.mean() - share) < 5 * error + 1 / VOCABULARY_SIZE
    others = seen[~masked & ~kept]
    assert not np.isin(others, Tokenizer().special_token_ids).any()
    assert len(np.unique(others)) > VOCABULARY_SIZE / 2
