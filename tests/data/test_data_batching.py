"""Padded batches for Keras."""

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from kdkit.data import (
    BatchStream,
    Buckets,
    Examples,
    bucket_boundaries,
    encode,
    epoch_batches,
    generate_sentiment,
)
from kdkit.tasks import get_task

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


def test_training_batches_have_one_signature(encoded):
    dataset = BatchStream(encoded, Buckets(8), seed=3).training()
    inputs, labels = dataset.element_spec
    assert inputs == {
        name: tf.TensorSpec((None, None), "int32") for name in NAMES
    }
    assert labels == tf.TensorSpec((None,), "int32")
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY


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


def test_training_batches_work_under_mirrored_strategy(encoded):
    devices = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([devices[0].name])
    stream = BatchStream(encoded, Buckets(8), seed=3)
    dataset = stream.training()
    distributed = strategy.experimental_distribute_dataset(dataset)
    expected = dataset.take(stream.steps_per_epoch).as_numpy_iterator()
    for (_, labels), (_, wanted) in zip(distributed, expected, strict=False):
        np.testing.assert_array_equal(labels.numpy(), wanted)


def test_sst2_batches_hold_at_least_80_percent_real_tokens(shared_data):
    vocabulary = shared_data / "vocab" / "bert-base-uncased-vocab.txt"
    tokenizer = keras_hub.models.BertTokenizer(
        vocabulary=str(vocabulary), lowercase=True
    )
    task = get_task("sst2")
    examples = task.load("train", shared_data / "glue")
    encoded = encode(examples, tokenizer, task.sequence_length)
    stream = BatchStream(encoded, Buckets(32))
    dataset, steps = stream.training(), stream.steps_per_epoch
    real, total, shapes = 0, 0, set()
    for inputs, _ in dataset.take(steps).as_numpy_iterator():
        real += inputs["padding_mask"].sum()
        total += inputs["padding_mask"].size
        shapes.add(inputs["padding_mask"].shape)
    assert real == encoded.lengths.sum()
    assert real / total >= 0.8
    assert len({length for _, length in shapes}) == 8
    assert len(shapes) <= 9
