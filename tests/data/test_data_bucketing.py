"""Padded lengths and the batches of an epoch."""

import collections
import itertools

import numpy as np
import pytest

from kdkit.data import bucket_boundaries, epoch_batches


def padded_tokens(lengths, boundaries):
    return sum(
        min(bound for bound in boundaries if bound >= length)
        for length in lengths
    )


@pytest.fixture
def lengths():
    return np.random.default_rng(0).integers(2, 33, size=230)


@pytest.mark.parametrize("num_buckets", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_bucket_boundaries_waste_least_of_all_choices(num_buckets, seed):
    lengths = np.random.default_rng(seed).integers(1, 12, size=40)
    found = bucket_boundaries(lengths, num_buckets, maximum=16)
    best = min(
        padded_tokens(lengths, (*choice, lengths.max()))
        for count in range(num_buckets)
        for choice in itertools.combinations(np.unique(lengths)[:-1], count)
    )
    assert len(found) <= num_buckets
    assert padded_tokens(lengths, found) == best


def test_bucket_boundaries_waste_nothing_with_a_bucket_for_every_length():
    assert bucket_boundaries(np.array([4, 2, 9, 4]), 8, 16) == (2, 4, 9)


def test_bucket_boundaries_stop_at_the_maximum():
    assert bucket_boundaries(np.array([4, 40, 50]), 8, 16) == (4, 16)


@pytest.mark.parametrize("shuffle", [True, False])
def test_epoch_batches_hold_every_row_once(lengths, shuffle):
    boundaries = bucket_boundaries(lengths, 4, 64)
    batches = epoch_batches(lengths, boundaries, 8, 1, 0, shuffle)
    rows = np.concatenate([rows for rows, _ in batches])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(lengths)))
    for rows, padded_length in batches:
        assert lengths[rows].max() <= padded_length
        assert padded_length in boundaries


def test_epoch_batches_have_one_partial_batch(lengths):
    boundaries = bucket_boundaries(lengths, 4, 64)
    sizes = [
        len(rows) for rows, _ in epoch_batches(lengths, boundaries, 8, 1, 0)
    ]
    assert len(sizes) == -(-len(lengths) // 8)
    assert sorted(sizes)[:2] == [len(lengths) % 8, 8]


def test_epoch_batches_depend_on_seed_and_epoch_only(lengths):
    def flat(seed, epoch):
        return [
            (rows.tolist(), padded_length)
            for rows, padded_length in epoch_batches(
                lengths, (16, 32), 8, seed, epoch
            )
        ]

    assert flat(1, 3) == flat(1, 3)
    assert flat(1, 3) != flat(1, 4)
    assert flat(1, 3) != flat(3, 1)


def test_epoch_batches_have_the_same_shapes_every_epoch(lengths):
    boundaries = bucket_boundaries(lengths, 4, 64)

    def shapes(epoch):
        return collections.Counter(
            (len(rows), padded_length)
            for rows, padded_length in epoch_batches(
                lengths, boundaries, 8, 1, epoch
            )
        )

    assert shapes(0) == shapes(1) == shapes(7)


def test_epoch_batches_mix_lengths_in_time(lengths):
    boundaries = bucket_boundaries(lengths, 4, 64)
    order = [
        padded_length
        for _, padded_length in epoch_batches(lengths, boundaries, 8, 1, 0)
    ]
    assert order != sorted(order)
