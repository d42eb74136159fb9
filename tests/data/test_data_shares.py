"""Shares of batches: every row once, none apart from what belongs to it."""

import numpy as np
import pytest
import tensorflow as tf

from kdkit.data import WHOLE
from kdkit.data import EncodedExamples
from kdkit.data import Shares
from kdkit.data import evaluation_batches
from kdkit.data import training_batches


def of_processes(replicas):
    """The shares of processes with so many replicas each."""
    return [
        Shares(sum(replicas[:number]), count, sum(replicas))
        for number, count in enumerate(replicas)
    ]


@pytest.mark.parametrize("replicas", [[2], [4], [1, 1, 1], [2, 2]])
@pytest.mark.parametrize("num_rows", [1, 3, 8])
def test_every_row_belongs_to_one_replica(replicas, num_rows):
    rows = np.arange(num_rows)
    found = [
        part
        for shares in of_processes(replicas)
        for part in shares.of_rows(rows)
    ]
    assert len(found) == sum(replicas)
    np.testing.assert_array_equal(np.concatenate(found), rows)
    sizes = [len(part) for part in found]
    assert max(sizes) - min(sizes) <= 1
    batches = tf.data.Dataset.from_tensors(({"x": rows}, rows * 2))
    tensors = [
        element
        for shares in of_processes(replicas)
        for element in shares.of_batches(batches)
    ]
    for (x, y), part in zip(tensors, found, strict=True):
        np.testing.assert_array_equal(x["x"], part)
        np.testing.assert_array_equal(y, 2 * part)


def test_batches_without_labels_stay_without():
    batches = tf.data.Dataset.from_tensors({"x": np.arange(4)})
    (first, second) = Shares(count=2, total=2).of_batches(batches.repeat(1))
    assert first["x"].numpy().tolist() == [0, 1]
    assert second["x"].numpy().tolist() == [2, 3]
    assert WHOLE.of_batches(batches) is batches


def questions(count, options):
    lengths = np.full(count * options, 3, "int32")
    ids = np.arange(lengths.sum(), dtype="int32")
    return EncodedExamples(
        token_ids=ids,
        segment_ids=np.zeros_like(ids),
        lengths=lengths,
        labels=np.arange(count, dtype="int32"),
        sequence_length=3,
        num_truncated=0,
        pad_token_id=0,
        sequences_per_row=options,
    )


def test_the_options_of_a_question_stay_with_its_label():
    encoded = questions(5, options=4)
    whole, steps = training_batches(encoded, 5, seed=0)
    shares, same = training_batches(
        encoded, 5, seed=0, shares=Shares(count=2, total=2)
    )
    assert same == steps == 1
    (x, y), *_ = whole.take(1)
    parts = list(shares.take(2))
    assert [len(labels) for _, labels in parts] == [2, 3]
    for key, tensor in x.items():
        joined = np.concatenate([part[key] for part, _ in parts])
        np.testing.assert_array_equal(joined, tensor)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), y)
    dev, _ = evaluation_batches(encoded, 2, shares=Shares(1, 1, 2))
    assert int(dev.cardinality()) == 3
    assert [len(labels) for _, labels in dev] == [1, 1, 1]
