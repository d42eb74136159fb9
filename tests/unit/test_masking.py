"""Masks and spans: how many tokens, which, and reproducible from a seed."""

import functools
import math

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from kit.encoders import MASKED_LMS, sentence_piece_model
from kit.encoders import tokenizer as family_tokenizer

from kdkit import data

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{number}" for number in range(40)]
CONTINUATIONS = [f"##c{number}" for number in range(20)]
ROWS, LENGTH = 400, 42
BUDGET = 6  # 15 % of 40
seeds = st.integers(0, 2**31 - 1)


@functools.cache
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(
        [*SPECIAL, *WORDS, *CONTINUATIONS], lowercase=True
    )


@functools.cache
def corpus():
    generator = np.random.default_rng(0)
    rows = generator.integers(5, 65, size=(ROWS, LENGTH)).astype("int32")
    rows[:, 0], rows[:, -1], rows[:, 20] = 2, 3, 3
    return rows


def masked(rows, own=None, seed=0, **settings):
    """Rows masked once, as NumPy."""
    masker = data.Masker(data.Masking(**settings), own or tokenizer())
    x, y, weights = masker(tf.constant(rows, "int32"), [seed, 0])
    return {key: x[key].numpy() for key in x}, y.numpy(), weights.numpy()


def chosen_of(x, weights, shape):
    """Where tokens are predicted."""
    chosen = np.zeros(shape, bool)
    np.put_along_axis(chosen, x["mask_positions"], weights > 0, 1)
    return chosen


@given(seed=seeds, row_seed=seeds, whole_words=st.booleans())
def test_a_masked_row_with_its_labels_put_back_is_the_row(
    seed, row_seed, whole_words
):
    rows = np.random.default_rng(row_seed).integers(0, 65, (3, 30))
    x, y, weights = masked(rows, seed=seed, whole_words=whole_words)
    positions = x["mask_positions"]
    restored = x["token_ids"].copy()
    np.put_along_axis(restored, positions, y, axis=1)
    np.testing.assert_array_equal(restored, rows)
    # What does not count is as it was, and nothing special counts.
    counts = weights > 0
    placed = np.take_along_axis(x["token_ids"], positions, axis=1)
    np.testing.assert_array_equal(placed[~counts], y[~counts])
    assert (y[counts] >= len(SPECIAL)).all()
    assert counts.sum(axis=1).max() <= data.Masking().num_predictions(30)


@pytest.mark.parametrize("family", MASKED_LMS)
def test_unknown_tokens_are_neither_predicted_nor_drawn(family):
    own = family_tokenizer(family)
    pieces = list(own.get_vocabulary())
    (unknown,) = {"[UNK]", "<unk>"} & set(pieces)
    row = np.array([[*own("a dull plot"), *5 * [pieces.index(unknown)]]])
    row = np.repeat(row, 4000, axis=0)
    x, y, weights = masked(row, own, share=0.5, random_share=0.2)
    assert unknown not in {pieces[token] for token in y[weights > 0]}
    drawn = {pieces[token] for token in x["token_ids"][x["token_ids"] != row]}
    special = own.start_token_id, own.end_token_id, own.pad_token_id
    assert drawn == {*pieces} - {unknown} - {pieces[one] for one in special}


def test_an_unknown_piece_of_any_name_is_known():
    proto = sentence_piece_model(
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        unk_piece="what?",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        user_defined_symbols=["[MASK]"],
    )
    own = keras_hub.tokenizers.AlbertTokenizer(proto=proto)
    _, y, weights = masked([[1, 1, 20, 21]] * 8, own, share=0.9)
    assert set(y[weights > 0]) <= {20, 21}


def test_tokens_of_languages_are_not_drawn(sentence_pieces):
    own = sentence_pieces
    row = np.full((2000, 12), own.vocabulary_size() - 1, "int32")
    special = [*own.special_token_ids, own.token_to_id("<unk>")]
    expected = set(range(own.vocabulary_size())) - set(special)
    x, _, _ = masked(row, own, share=0.9, random_share=0.2)
    assert set(x["token_ids"].ravel()) - {own.mask_token_id} == expected
    masking = data.SpanMasking(mask_share=0.0, random_share=1.0)
    x, _, _ = data.SpanMasker(masking, own)(row, [0, 1])
    assert set(x["encoder_token_ids"].numpy().ravel()) == expected


def test_eighty_ten_ten_at_positions_that_are_chosen_evenly():
    x, y, _ = masked(corpus())
    placed = np.take_along_axis(x["token_ids"], x["mask_positions"], 1)
    is_mask = placed == tokenizer().mask_token_id
    # Of 2,400 draws, four standard deviations.
    assert is_mask.mean() == pytest.approx(0.8, abs=0.033)
    assert (placed == y).mean() == pytest.approx(0.1 + 0.1 / 60, abs=0.025)
    assert placed[~is_mask].min() >= len(SPECIAL)
    counts = np.bincount(x["mask_positions"].ravel(), minlength=LENGTH)
    special = [0, 20, LENGTH - 1]
    expected = ROWS * BUDGET / 39
    assert counts[special].sum() == 0
    np.testing.assert_allclose(
        np.delete(counts, special), expected, atol=5 * expected**0.5
    )


def test_all_pieces_of_a_word_are_chosen_together():
    rows = corpus()
    x, _, weights = masked(rows, whole_words=True)
    chosen = chosen_of(x, weights, rows.shape)
    continues = rows >= 5 + len(WORDS)
    special = rows < 5
    begins = ~continues | special | np.roll(special, 1, axis=1)
    words = np.cumsum(begins, axis=1)
    whole = 0
    for row in range(ROWS):
        for word in np.unique(words[row][chosen[row]]):
            pieces = chosen[row][words[row] == word]
            whole += pieces.all()
            # Only a word longer than the budget is ever cut.
            assert pieces.all() or len(pieces) > BUDGET
    assert whole > ROWS
    assert 0.6 < weights.mean() <= 1


def test_a_row_with_little_to_predict_has_weights_of_0():
    rows = np.full((2, LENGTH), 3)
    rows[0, 5], rows[0, 9] = 10, 11
    _, y, weights = masked(rows)
    assert weights.sum(axis=1).tolist() == [2, 0]
    assert sorted(y[0][weights[0] > 0]) == [10, 11]


@pytest.mark.parametrize("num_rows", [1, 7, 32, ROWS])
@pytest.mark.parametrize("share", [0.15, 0.2])
def test_a_share_of_the_batch_is_exact(num_rows, share):
    """DistilBERT's code: 15 % of all tokens of a batch, rounded up."""
    rows = corpus()[:num_rows]
    x, y, weights = masked(rows, share=share, share_of="batch")
    assert weights.sum() == math.ceil(share * num_rows * LENGTH)
    of_rows = weights.sum(axis=1)
    assert of_rows.max() - of_rows.min() <= 1  # an equal part of each row
    assert y.shape == (num_rows, math.ceil(share * LENGTH))
    originals = np.take_along_axis(rows, x["mask_positions"], 1)
    np.testing.assert_array_equal(y, originals)
    assert y[weights > 0].min() >= len(SPECIAL)
    changed = x["token_ids"] != rows
    assert not changed[~chosen_of(x, weights, rows.shape)].any()


def test_rows_with_one_prediction_more_are_drawn():
    rows = corpus()[:20]  # 126 predictions of 840 tokens
    masker = data.Masker(data.Masking(share_of="batch"), tokenizer())
    counts = [masker(rows, [0, seed])[2].numpy().sum(1) for seed in range(60)]
    assert {tuple(sorted(one)) for one in counts} == {(6,) * 14 + (7,) * 6}
    more = np.mean([one == 7 for one in counts], axis=0)
    # Of 60 draws each, four standard deviations.
    np.testing.assert_allclose(more, 0.3, atol=4 * (0.3 * 0.7 / 60) ** 0.5)


PAD, END, LANGUAGE, MASK, FIRST = 0, 3, 5, 4, 6
VOCABULARY_SIZE = 1000


class Ids:
    """What a span masker reads of a tokenizer."""

    pad_token_id = PAD
    mask_token_id = MASK
    special_token_ids = (PAD, 2, END, MASK, LANGUAGE)

    def vocabulary_size(self):
        return VOCABULARY_SIZE


def sentences(*lengths):
    """Rows of these sentence lengths, whose tokens all differ."""
    rows = np.full((len(lengths), max(lengths) + 2), PAD, "int32")
    for row, length in enumerate(lengths):
        words = FIRST + 100 * row + np.arange(length)
        rows[row, : length + 2] = [LANGUAGE, *words, END]
    return rows


def spans(rows, seed=0, **masking):
    masker = data.SpanMasker(data.SpanMasking(**masking), Ids())
    x, y, weight = masker(tf.constant(rows), tf.constant([seed, 7]))
    return {key: x[key].numpy() for key in x}, y.numpy(), weight.numpy()


@given(lengths=st.lists(st.integers(1, 25), min_size=1, max_size=6), seed=seeds)
def test_the_decoder_predicts_one_span_of_half_the_sentence(lengths, seed):
    rows = sentences(*lengths)
    x, y, weight = spans(rows, seed)
    hidden = x["encoder_token_ids"]
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
        restored = hidden[row].copy()
        restored[start : start + size] = span
        np.testing.assert_array_equal(restored, rows[row])
    padding = weight == 0
    assert not y[padding].any()
    assert not x["decoder_token_ids"][padding].any()
    np.testing.assert_array_equal(x["decoder_padding_mask"], ~padding)
    np.testing.assert_array_equal(x["encoder_padding_mask"], rows != PAD)


def test_positions_of_a_whole_sentence_are_those_of_fine_tuning():
    x, y, _ = spans(sentences(6), share=1.0)
    np.testing.assert_array_equal(x["decoder_positions"], [np.arange(6)])
    np.testing.assert_array_equal(y, [FIRST + np.arange(6)])


def test_every_place_of_a_span_is_as_likely():
    _, y, _ = spans(np.tile(sentences(9), (4000, 1)))
    starts, counts = np.unique(y[:, 0] - FIRST, return_counts=True)
    size = round(9 / 2)
    np.testing.assert_array_equal(starts, np.arange(9 - size + 1))
    expected = 4000 / len(starts)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_hidden_tokens_are_masked_random_or_kept_as_8_to_1_to_1():
    x, y, _ = spans(np.tile(sentences(40), (1000, 1)))
    places = y[:, :1] - FIRST + 1 + np.arange(20)
    seen = np.take_along_axis(x["encoder_token_ids"], places, axis=1)
    kept, masked = seen == y, seen == MASK
    for found, share in ((masked, 0.8), (kept, 0.1), (~masked & ~kept, 0.1)):
        error = np.sqrt(share * (1 - share) / seen.size)
        assert abs(found.mean() - share) < 5 * error + 1 / VOCABULARY_SIZE
    others = seen[~masked & ~kept]
    assert not np.isin(others, Ids.special_token_ids).any()
    assert len(np.unique(others)) > VOCABULARY_SIZE / 2
