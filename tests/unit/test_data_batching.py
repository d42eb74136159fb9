"""Padded batches for Keras."""

import numpy as np
import pytest

from kdkit.data import (
    BatchStream,
    Buckets,
    Examples,
    bucket_boundaries,
    encode,
    epoch_batches,
    generate_sentiment,
)

NAMES = ("token_ids", "segment_ids", "padding_mask")


@pytest.fixture(scope="module")
def encoded(tokenizer):
    return encode(generate_sentiment(75, seed=0), tokenizer, 32)


@pytest.fixture(scope="module")
def unlabelled(tokenizer):
    texts = generate_sentiment(10, seed=0).texts[0]
    return encode(Examples((texts, texts[::-1])), tokenizer, 32)


def as_rows(inputs):
    """Token ids of every row of a batch, without padding."""
    return [
        tuple(row[mask == 1])
        for row, mask in zip(
            inputs["token_ids"], inputs["padding_mask"], strict=True
        )
    ]


def test_training_batches_pad_the_rows_of_the_epoch(encoded):
    stream = BatchStream(encoded, Buckets(8, num_buckets=4), seed=3)
    boundaries = bucket_boundaries(encoded.lengths, 4, 32)
    expected = epoch_batches(encoded.lengths, boundaries, 8, seed=3, epoch=0)
    assert stream.steps_per_epoch == len(expected) == 10
    batches = stream.training().take(10).as_numpy_iterator()
    for (rows, padded_length), (inputs, labels) in zip(
        expected, batches, strict=True
    ):
        np.testing.assert_array_equal(labels, encoded.labels[rows])
        assert inputs["token_ids"].shape == (len(rows), padded_length)
        assert as_rows(inputs) == [tuple(encoded.row(row)) for row in rows]
        padding = inputs["padding_mask"] == 0
        assert (inputs["token_ids"][padding] == encoded.pad_token_id).all()


def test_batches_without_labels_are_inputs_only(unlabelled):
    stream = BatchStream(unlabelled, Buckets(4))
    assert set(stream.training().element_spec) == set(NAMES)
    batches = list(stream.evaluation().as_numpy_iterator())
    segments = np.concatenate(
        [batch["segment_ids"].ravel() for batch in batches]
    )
    assert segments.sum() == unlabelled.segment_ids.sum() > 0
    assert sum(len(batch["token_ids"]) for batch in batches) == 10


def test_batches_keep_scores_as_float(tokenizer):
    scores = np.array([0.5, 2.0, 4.75], "float32")
    examples = Examples((["dull", "thin", "the plot is superb ."],), scores)
    stream = BatchStream(encode(examples, tokenizer, 16), Buckets(2))
    labels = [y for _, y in stream.evaluation().as_numpy_iterator()]
    labels = np.concatenate(labels)
    assert labels.dtype == np.float32
    rows = np.concatenate([rows for rows, _ in stream.evaluation_batches])
    np.testing.assert_array_equal(labels, scores[rows])


def test_evaluation_batches_can_be_put_into_row_order(encoded):
    stream = BatchStream(encoded, Buckets(16, num_buckets=3))
    rows = np.concatenate([rows for rows, _ in stream.evaluation_batches])
    dataset = stream.evaluation()
    assert dataset.cardinality() == -(-len(encoded) // 16)
    for _ in range(2):  # the same again on the second pass
        found = [
            row for x, _ in dataset.as_numpy_iterator() for row in as_rows(x)
        ]
        in_row_order = [None] * len(encoded)
        for number, row in zip(rows, found, strict=True):
            in_row_order[number] = row
        expected = [tuple(encoded.row(row)) for row in range(len(encoded))]
        assert in_row_order == expected
