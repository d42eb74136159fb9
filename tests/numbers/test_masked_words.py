"""The best words for a masked position are the same in any batch."""

import keras_hub
import numpy as np
import pytest
from kit.helpers import spread_weights

from kdkit.augmentation.candidates import MaskedWords, Query
from kdkit.errors import UsageError

PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]",
    *(f"{first}{second}" for first in "abcd" for second in "efgh"),
    "##s", "##ing", "7", ",",
]  # fmt: skip
POSITIONS = 20


@pytest.fixture(scope="module")
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)


@pytest.fixture(scope="module")
def model():
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(PIECES),
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=POSITIONS,
        dropout=0.0,
    )
    made = keras_hub.models.BertMaskedLM(backbone)
    spread_weights(made)
    return made


@pytest.fixture(scope="module")
def queries():
    generator = np.random.default_rng(0)
    found = []
    for _ in range(40):
        length = generator.integers(1, 17)
        token_ids = generator.integers(6, len(PIECES), length)
        found.append(Query(token_ids, int(generator.integers(length))))
    return found


def best_words(model, row, segments, position, count):
    """The ids of the best whole words, by one plain call of the model."""
    logits = model(
        {
            "token_ids": np.array([row]),
            "segment_ids": np.array([segments]),
            "padding_mask": np.ones((1, len(row)), "int32"),
            "mask_positions": np.array([[position]]),
        }
    )
    logits = np.asarray(logits)[0, 0]
    words = [number for number, piece in enumerate(PIECES) if piece.isalpha()]
    return sorted(sorted(words, key=lambda number: -logits[number])[:count])


def test_words_are_those_of_one_position_at_a_time(model, tokenizer, queries):
    found = MaskedWords(model, tokenizer, 4)(queries)
    for query, ids in zip(queries, found, strict=True):
        row = [2, *query.token_ids, 3]
        row[1 + query.position] = 4
        segments = [0] * len(row)
        position = 1 + query.position
        assert ids.tolist() == best_words(model, row, segments, position, 4)


@pytest.mark.parametrize("num_pieces", [9, 15, POSITIONS - 1, 30])
def test_the_second_segment_has_what_the_first_leaves(
    model, tokenizer, num_pieces
):
    """TinyBERT's code: places up to the last one, rows cut at their end."""
    words = MaskedWords(model, tokenizer, 4, with_original=True)
    assert words.most_pieces == POSITIONS - 1
    token_ids = np.arange(num_pieces) % 16 + 6
    last = min(num_pieces, words.most_pieces) - 1
    queries = [Query(token_ids, position) for position in (0, last)]
    for query, ids in zip(queries, words(queries), strict=True):
        masked = token_ids.copy()
        masked[query.position] = 4
        row = [2, *masked, 3, *token_ids, 3][:POSITIONS]
        first = min(num_pieces + 2, POSITIONS)
        segments = [0] * first + [1] * (len(row) - first)
        position = 1 + query.position
        assert ids.tolist() == best_words(model, row, segments, position, 4)


def test_what_is_beyond_the_models_positions_is_not_read(model, tokenizer):
    words = MaskedWords(model, tokenizer, 4)
    assert words.most_pieces == POSITIONS - 2
    ids = np.arange(40) % 16 + 6
    long, cut = (words([Query(token_ids, 3)]) for token_ids in (ids, ids[:18]))
    np.testing.assert_array_equal(long, cut)


def test_more_words_than_there_are_is_refused(model, tokenizer):
    with pytest.raises(UsageError, match="has only 16 whole words"):
        MaskedWords(model, tokenizer, 17)
