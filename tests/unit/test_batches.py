"""Batches: their order, padding and shares, for any rows."""

import itertools
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdkit.data import (
    BatchStream,
    Buckets,
    EncodedExamples,
    Examples,
    encode,
    generate_sentiment,
)
from kdkit.data.orders import bucket_boundaries, token_batches
from kdkit.data.stream import Shares

seeds = st.integers(0, 2**31 - 1)
some_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=60).map(
    lambda drawn: np.array(drawn, "int32")
)


def order_of(lengths, buckets):
    rows = types.SimpleNamespace(row_lengths=lengths, sequence_length=64)
    return buckets.order(rows)


@given(
    lengths=some_lengths,
    num_buckets=st.integers(1, 9),
    batch_size=st.integers(1, 17),
    seed=seeds,
    epoch=st.integers(0, 50),
)
def test_an_epoch_has_every_row_once_where_it_fits(
    lengths, num_buckets, batch_size, seed, epoch
):
    boundaries = bucket_boundaries(lengths, num_buckets)
    order = order_of(lengths, Buckets(batch_size, num_buckets))
    batches, again, another_epoch = (
        order(seed, number) for number in (epoch, epoch, epoch + 1)
    )
    rows = np.concatenate([rows for rows, _ in batches])
    assert sorted(rows) == list(range(len(lengths)))
    for batch, length in batches:
        assert lengths[batch].max() <= length
        assert length in boundaries
    sizes = [len(batch) for batch, _ in batches]
    assert sum(size < batch_size for size in sizes) <= 1
    assert [batch.tolist() for batch, _ in batches] == [
        batch.tolist() for batch, _ in again
    ]

    def shapes(found):
        return sorted((len(batch), length) for batch, length in found)

    assert shapes(batches) == shapes(another_epoch)


def test_an_epochs_lengths_are_mixed_by_seed_and_epoch():
    lengths = np.random.default_rng(0).integers(2, 33, size=230)

    def order(seed, epoch):
        batches = order_of(lengths, Buckets(8, 4))(seed, epoch)
        padded = [length for _, length in batches]
        assert padded != sorted(padded)
        return [rows.tolist() for rows, _ in batches]

    assert order(1, 3) != order(1, 4)
    assert order(1, 3) != order(3, 1)


def padded_tokens(lengths, boundaries):
    return sum(
        min(bound for bound in boundaries if bound >= length)
        for length in lengths
    )


@pytest.mark.parametrize("num_buckets", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_bucket_boundaries_waste_least_of_all_choices(num_buckets, seed):
    lengths = np.random.default_rng(seed).integers(1, 12, size=40)
    found = bucket_boundaries(lengths, num_buckets)
    best = min(
        padded_tokens(lengths, (*choice, lengths.max()))
        for count in range(num_buckets)
        for choice in itertools.combinations(np.unique(lengths)[:-1], count)
    )
    assert len(found) <= num_buckets
    assert padded_tokens(lengths, found) == best


def test_enough_buckets_waste_nothing():
    assert bucket_boundaries(np.array([4, 2, 9, 4]), 8) == (2, 4, 9)


@pytest.fixture(scope="module")
def encoded(tokenizer):
    return encode(generate_sentiment(75, seed=0), tokenizer, 32)


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
    expected = stream.batches(0)
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


def test_evaluation_batches_can_be_put_into_row_order(encoded):
    stream = BatchStream(encoded, Buckets(16, num_buckets=3))
    rows = np.concatenate([rows for rows, _ in stream.evaluation_batches])
    found = [
        row
        for x, _ in stream.evaluation().as_numpy_iterator()
        for row in as_rows(x)
    ]
    in_row_order = [found[place] for place in np.argsort(rows)]
    assert in_row_order == [tuple(encoded.row(row)) for row in range(75)]


def test_batches_without_labels_are_inputs_only(tokenizer):
    texts = generate_sentiment(10, seed=0).texts[0]
    rows = encode(Examples((texts, texts[::-1])), tokenizer, 32)
    stream = BatchStream(rows, Buckets(4))
    names = {"token_ids", "segment_ids", "padding_mask"}
    assert set(stream.training().element_spec) == names
    segments = [x["segment_ids"].numpy().sum() for x in stream.evaluation()]
    assert sum(segments) == rows.segment_ids.sum() > 0


def test_batches_keep_scores_as_float(tokenizer):
    scores = np.array([0.5, 2.0, 4.75], "float32")
    examples = Examples((["dull", "thin", "the plot is superb ."],), scores)
    stream = BatchStream(encode(examples, tokenizer, 16), Buckets(2))
    labels = np.concatenate([y for _, y in stream.evaluation()])
    assert labels.dtype == np.float32
    rows = np.concatenate([rows for rows, _ in stream.evaluation_batches])
    np.testing.assert_array_equal(labels, scores[rows])


@given(
    num_rows=st.integers(0, 40),
    total=st.integers(1, 9),
    processes=st.integers(1, 4),
)
def test_shares_of_all_processes_are_the_batch(num_rows, total, processes):
    total *= processes  # replicas
    each = total // processes
    rows = np.arange(100, 100 + num_rows)
    shares = [
        share
        for process in range(processes)
        for share in Shares(process * each, each, total).of_rows(rows)
    ]
    assert np.concatenate(shares).tolist() == rows.tolist()
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_training_continues_within_a_batch(encoded):
    stream = BatchStream(encoded, Buckets(8), num_parts=3)
    parts = [*stream.training().take(6)]
    for part, continued in zip(
        parts[4:], stream.training(step=4).take(2), strict=True
    ):
        np.testing.assert_array_equal(part[1], continued[1])


def test_the_options_of_a_question_stay_with_its_label():
    ids = np.arange(5 * 4 * 3, dtype="int32")
    questions = EncodedExamples(
        token_ids=ids,
        segment_ids=np.zeros_like(ids),
        lengths=np.full(5 * 4, 3, "int32"),
        labels=np.arange(5, dtype="int32"),
        sequence_length=3,
        num_truncated=0,
        pad_token_id=0,
        sequences_per_row=4,
    )
    stream = BatchStream(questions, Buckets(5))
    two = BatchStream(questions, Buckets(5), shares=Shares(count=2, total=2))
    (x, y), *_ = stream.training().take(1)
    parts = list(two.training().take(2))
    assert [len(labels) for _, labels in parts] == [2, 3]
    for key, tensor in x.items():
        joined = np.concatenate([part[key] for part, _ in parts])
        np.testing.assert_array_equal(joined, tensor)
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), y)


def sentence_lengths(count):
    """Lengths as those of sentences are, and of translations near them."""
    rng = np.random.default_rng(0)
    source = np.maximum(3, rng.lognormal(2.7, 0.4, count)).astype(int)
    target = np.maximum(3, source * rng.normal(1.1, 0.2, count)).astype(int)
    return [source, target]


def test_a_batch_has_no_more_tokens_than_asked_and_little_padding():
    lengths = sentence_lengths(5000)
    first, again, other = (
        token_batches(lengths, 1024, seed=0, epoch=epoch) for epoch in (0, 0, 1)
    )
    assert sorted(np.concatenate(first)) == list(range(5000))
    for rows in first:
        padded = sum(side[rows].max() for side in lengths) * len(rows)
        assert padded <= 1024
        assert sum(side[rows].sum() for side in lengths) >= 0.8 * padded
    assert [list(rows) for rows in first] == [list(rows) for rows in again]
    assert [list(rows) for rows in first] != [list(rows) for rows in other]
    assert len(first) == len(other)


def test_a_row_that_is_too_long_has_a_batch_of_its_own():
    batches = token_batches([np.array([3, 50, 3])], 10, seed=0, epoch=0)
    assert sorted(map(len, batches)) == [1, 2]
