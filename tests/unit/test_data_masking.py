"""BERT's masking: how many tokens, which, and reproducible from a seed."""

import math

import keras_hub
import numpy as np
import pytest
from kit.encoders import MASKED_LMS, sentence_piece_model
from kit.encoders import tokenizer as preprocessor_tokenizer

from kdkit import data
from kdkit.models import MassTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{number}" for number in range(40)]
CONTINUATIONS = [f"##c{number}" for number in range(20)]
ROWS, LENGTH = 400, 42
BUDGET = 6  # 15 % of 40


@pytest.fixture(scope="module")
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(
        [*SPECIAL, *WORDS, *CONTINUATIONS], lowercase=True
    )


@pytest.fixture(scope="module")
def corpus():
    generator = np.random.default_rng(0)
    rows = generator.integers(5, 65, size=(ROWS, LENGTH)).astype("int32")
    rows[:, 0], rows[:, -1], rows[:, 20] = 2, 3, 3
    return data.PackedCorpus(rows, num_texts=ROWS)


def masked(corpus, tokenizer, **settings):
    """All rows masked once, as NumPy."""
    masker = data.Masker(data.Masking(**settings), tokenizer)
    rows = data.MaskedRows(corpus, masker)
    stream = data.BatchStream(rows, data.FullBatches(len(corpus)))
    ((x, y, weights),) = list(stream.evaluation().as_numpy_iterator())
    return x, y, weights


@pytest.mark.parametrize("family", MASKED_LMS)
def test_unknown_tokens_are_neither_predicted_nor_drawn(family):
    tokenizer = preprocessor_tokenizer(family)
    pieces = list(tokenizer.get_vocabulary())
    (unknown,) = {"[UNK]", "<unk>"} & set(pieces)
    row = np.array([[*tokenizer("a dull plot"), *5 * [pieces.index(unknown)]]])
    row = np.repeat(row, 4000, axis=0).astype("int32")
    x, y, weights = masked(
        data.PackedCorpus(row, 1), tokenizer, share=0.5, random_share=0.2
    )
    assert unknown not in {pieces[token] for token in y[weights > 0]}
    drawn = {pieces[token] for token in x["token_ids"][x["token_ids"] != row]}
    not_text = {
        pieces[token]
        for token in (
            tokenizer.start_token_id,
            tokenizer.end_token_id,
            tokenizer.pad_token_id,
        )
    }
    assert drawn == set(pieces) - {unknown} - not_text


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
    tokenizer = keras_hub.tokenizers.AlbertTokenizer(proto=proto)
    row = np.array([[1, 1, 20, 21]] * 8, "int32")
    _, y, weights = masked(data.PackedCorpus(row, 1), tokenizer, share=0.9)
    assert set(y[weights > 0]) <= {20, 21}


def test_tokens_of_languages_are_not_drawn(sentence_pieces):
    tokenizer = MassTokenizer(sentence_pieces)
    row = np.full((2000, 12), tokenizer.vocabulary_size() - 1, "int32")
    special = [*tokenizer.special_token_ids, tokenizer.token_to_id("<unk>")]
    x, _, _ = masked(
        data.PackedCorpus(row, 1), tokenizer, share=0.9, random_share=0.2
    )
    drawn = set(x["token_ids"].ravel()) - {tokenizer.mask_token_id}
    assert drawn == set(range(tokenizer.vocabulary_size())) - set(special)
    spans = data.SpanMasker(
        data.SpanMasking(mask_share=0.0, random_share=1.0), tokenizer
    )
    x, _, _ = spans(row, [0, 1])
    drawn = set(x["encoder_token_ids"].numpy().ravel())
    assert drawn == set(range(tokenizer.vocabulary_size())) - set(special)


def test_eighty_ten_ten(corpus, tokenizer):
    x, y, _ = masked(corpus, tokenizer)
    placed = np.take_along_axis(x["token_ids"], x["mask_positions"], 1)
    is_mask = placed == tokenizer.mask_token_id
    kept = placed == y
    # Of 2,400 draws, four standard deviations.
    assert is_mask.mean() == pytest.approx(0.8, abs=0.033)
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 60, abs=0.025)
    assert placed[~is_mask].min() >= len(SPECIAL)


def test_positions_are_chosen_evenly(corpus, tokenizer):
    x, _, _ = masked(corpus, tokenizer)
    counts = np.bincount(x["mask_positions"].ravel(), minlength=LENGTH)
    ordinary = np.delete(counts, [0, 20, LENGTH - 1])
    expected = ROWS * BUDGET / 39
    assert counts[[0, 20, LENGTH - 1]].sum() == 0
    np.testing.assert_allclose(ordinary, expected, atol=5 * expected**0.5)


def test_all_pieces_of_a_word_are_chosen_together(corpus, tokenizer):
    x, _, weights = masked(corpus, tokenizer, whole_words=True)
    chosen = np.zeros(corpus.rows.shape, bool)
    np.put_along_axis(chosen, x["mask_positions"], weights > 0, 1)
    continues = corpus.rows >= 5 + len(WORDS)
    special = corpus.rows < 5
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


def test_a_row_with_little_to_predict_has_weights_of_0(tokenizer):
    rows = np.full((2, LENGTH), 3, "int32")
    rows[0, 5], rows[0, 9] = 10, 11
    _, y, weights = masked(data.PackedCorpus(rows, 1), tokenizer)
    assert weights.sum(axis=1).tolist() == [2, 0]
    assert sorted(y[0][weights[0] > 0]) == [10, 11]


@pytest.mark.parametrize("num_rows", [1, 7, 32, ROWS])
@pytest.mark.parametrize("share", [0.15, 0.2])
def test_a_share_of_the_batch_is_exact(corpus, tokenizer, num_rows, share):
    """DistilBERT's code: 15 % of all tokens of a batch, rounded up."""
    some = data.PackedCorpus(corpus.rows[:num_rows], num_rows)
    x, y, weights = masked(some, tokenizer, share=share, share_of="batch")
    assert weights.sum() == math.ceil(share * num_rows * LENGTH)
    of_rows = weights.sum(axis=1)
    assert of_rows.max() - of_rows.min() <= 1  # an equal part of each row
    assert y.shape == (num_rows, math.ceil(share * LENGTH))
    originals = np.take_along_axis(some.rows, x["mask_positions"], 1)
    np.testing.assert_array_equal(y, originals)
    assert y[weights > 0].min() >= len(SPECIAL)
    changed = x["token_ids"] != some.rows
    chosen = np.zeros_like(changed)
    np.put_along_axis(chosen, x["mask_positions"], weights > 0, 1)
    assert not changed[~chosen].any()


def test_rows_with_one_prediction_more_are_drawn(corpus, tokenizer):
    masker = data.Masker(data.Masking(share_of="batch"), tokenizer)
    rows = corpus.rows[:20]  # 126 predictions of 840 tokens
    counts = [masker(rows, [0, seed])[2].numpy().sum(1) for seed in range(60)]
    assert {tuple(sorted(one)) for one in counts} == {(6,) * 14 + (7,) * 6}
    more = np.mean([one == 7 for one in counts], axis=0)
    # Of 60 draws each, four standard deviations.
    np.testing.assert_allclose(more, 0.3, atol=4 * (0.3 * 0.7 / 60) ** 0.5)
