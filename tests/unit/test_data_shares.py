"""Shares of batches: every example once, with all its parts."""

import numpy as np

from kdkit.data import BatchStream, Buckets, EncodedExamples, Shares, parts_of


def test_no_part_is_empty():
    parts = parts_of(np.arange(2), 3)
    assert [part.tolist() for part in parts] == [[0], [0], [1]]


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
    stream = BatchStream(encoded, Buckets(5))
    two = BatchStream(encoded, Buckets(5), shares=Shares(count=2, total=2))
    assert stream.steps_per_epoch == two.steps_per_epoch == 1
    (x, y), *_ = stream.training().take(1)
    parts = list(two.training().take(2))
    assert [len(labels) for _, labels in parts] == [2, 3]
    for key, tensor in x.items():
        joined = np.concatenate([part[key] for part, _ in parts])
        np.testing.assert_array_equal(joined, tensor)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), y)
    dev = BatchStream(encoded, Buckets(2), shares=Shares(1, 1, 2)).evaluation()
    assert int(dev.cardinality()) == 3
    assert [len(labels) for _, labels in dev] == [1, 1, 1]
