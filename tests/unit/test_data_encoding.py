"""Tokenising and packing."""

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from kdkit.data import Examples, encode

FIRST = [
    "the plot is superb .",
    "dull",
    "the cast was never very moving , but the ending is truly gripping .",
    "",
]
SECOND = [
    "the story is a bit thin and the music seems deeply charming .",
    "zebra 7",
    "clever",
    "the hero feels silly .",
]


LABELS = np.array([1, 0, 1, 0], "int32")


@pytest.fixture(scope="module")
def encoded(tokenizer):
    return encode(Examples((FIRST,), LABELS), tokenizer, 9)


@pytest.fixture(scope="module")
def pairs(tokenizer):
    return encode(Examples((FIRST, SECOND)), tokenizer, 12)


def preprocessed(tokenizer, texts, sequence_length):
    """What keras-hub's own preprocessor makes of the texts."""
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=sequence_length
    )
    texts = tuple(tf.constant(column) for column in texts)
    # a keyword: keras-hub takes a pair by position for (x, y)
    return preprocessor(x=texts)


@pytest.mark.parametrize(
    ("fixture", "texts"), [("encoded", (FIRST,)), ("pairs", (FIRST, SECOND))]
)
def test_encode_equals_keras_hub_preprocessor(
    request, tokenizer, fixture, texts
):
    found = request.getfixturevalue(fixture)
    expected = preprocessed(tokenizer, texts, found.sequence_length)
    masks = np.array(expected["padding_mask"])
    np.testing.assert_array_equal(found.lengths, masks.sum(axis=1))
    for name in ("token_ids", "segment_ids"):
        np.testing.assert_array_equal(
            getattr(found, name), np.array(expected[name])[masks]
        )
        assert getattr(found, name).dtype == np.int32


@pytest.mark.parametrize(
    ("fixture", "texts"), [("encoded", (FIRST,)), ("pairs", (FIRST, SECOND))]
)
def test_encode_counts_rows_that_were_cut(request, tokenizer, fixture, texts):
    found = request.getfixturevalue(fixture)
    num_special = len(texts) + 1
    full_lengths = [
        num_special + sum(len(tokenizer(text)) for text in row)
        for row in zip(*texts, strict=True)
    ]
    expected = sum(length > found.sequence_length for length in full_lengths)
    assert found.num_truncated == expected > 0
    np.testing.assert_array_equal(
        found.lengths, np.minimum(full_lengths, found.sequence_length)
    )


def test_encode_gives_a_row_by_number(tokenizer, encoded):
    rows = [encoded.row(number) for number in range(len(encoded))]
    np.testing.assert_array_equal(np.concatenate(rows), encoded.token_ids)
    start, end = tokenizer.start_token_id, tokenizer.end_token_id
    assert all(row[0] == start and row[-1] == end for row in rows)
    np.testing.assert_array_equal(rows[3], [start, end])
