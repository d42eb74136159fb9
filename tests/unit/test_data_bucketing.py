"""Padded lengths and the batches of an epoch."""

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


def test_epoch_batches_mix_lengths_in_time(lengths):
    boundaries = bucket_boundaries(lengths, 4, 64)
    order = [
        padded_length
        for _, padded_length in epoch_batches(lengths, boundaries, 8, 1, 0)
    ]
    assert order != sorted(order)
