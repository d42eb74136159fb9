"""Keys, batches and numbers of a cache's files: `kdkit.teacher_cache.shards`.

Caches on users' disks were written under these keys.
"""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.caches import rows

from kdkit.teacher_cache import shards

EXCLUDED = -1e4  # the logit of a class that is no candidate
BATCH_BYTES = 256_000_000
# Few numbers, so that halves of keys and whole keys are there twice.
KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12)


@given(KEYS, KEYS)
def test_the_first_of_the_same_keys_is_found(wanted, known):
    found = shards.find(
        np.array(wanted, "uint64").reshape(-1, 2),
        np.array(known, "uint64").reshape(-1, 2),
    )
    assert found.tolist() == [
        known.index(key) if key in known else -1 for key in wanted
    ]


def test_keys_are_of_tokens_and_segments():
    (key,) = shards.sequence_keys(rows(1))
    content = np.concatenate([rows(1).token_ids, rows(1).segment_ids])
    expected = hashlib.blake2b(content.tobytes(), digest_size=16).digest()
    assert key.tobytes() == expected
    encoded = rows(5, sequences_per_row=2)
    assert len(shards.row_keys(encoded)) == 5
    assert len(shards.sequence_keys(encoded)) == 10


def bytes_of(length):
    """Of attention with 40 heads: three rows of 512 tokens fill a batch."""
    return 4 * 40 * length**2 + 4 * 10_000 * length


@given(
    st.lists(st.integers(2, 700), min_size=1, max_size=300),
    st.sets(st.integers(0, 30)),
)
def test_rows_that_are_left_are_cut_as_before(lengths, done):
    lengths = np.array(lengths)
    keys = np.random.default_rng(0).integers(0, 9, (len(lengths), 2), "uint64")
    every = shards.cut(np.arange(len(lengths)), lengths, keys, bytes_of)
    assert sorted(np.concatenate(every)) == list(range(len(lengths)))
    for batch in every:
        size = len(batch) * bytes_of(lengths[batch].max())
        assert len(batch) <= shards.BATCH_ROWS
        assert len(batch) == 1 or size <= BATCH_BYTES
    left = [batch for place, batch in enumerate(every) if place not in done]
    rest = np.array(sorted(row for batch in left for row in batch), int)
    again = shards.cut(rest, lengths, keys, bytes_of)
    assert [*map(list, again)] == [*map(list, left)]


def stored(values, precision):
    """The numbers that are read again, and the errors that are noted."""
    content, error = shards.pack(values, precision), shards.Error()
    error.add(values, content, precision)
    found = np.empty_like(values)
    shards.unpack(np.frombuffer(content, "uint8"), precision, found)
    return found, error


@given(
    st.lists(
        st.tuples(st.floats(-20, 20, width=32), st.booleans()),
        min_size=2,
        max_size=9,
    )
)
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_logits_of_candidates_are_kept_beside_those_of_no_candidates(
    precision, drawn
):
    values = np.array([value for value, _ in drawn], "float32")
    is_candidate = ~np.array([excluded for _, excluded in drawn])
    values[~is_candidate] = EXCLUDED
    found, error = stored(values, precision)
    right = values[is_candidate]
    np.testing.assert_allclose(found[is_candidate], right, atol=0.09)
    np.testing.assert_allclose(found[~is_candidate], EXCLUDED, rtol=4e-3)
    largest = np.abs(found[is_candidate] - right).max(initial=0.0)
    assert error.largest == largest
    signal = np.square(right, dtype="float64").sum()
    assert error.signal == pytest.approx(signal)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_does_not_become_a_number(precision, broken):
    with np.errstate(invalid="ignore"):
        found, error = stored(np.array([1.0, broken, -2.0], "f4"), precision)
    assert not np.isfinite(found[1])
    # Or the errors of all else that is kept would not be known.
    assert np.isfinite([error.largest, error.squared, error.signal]).all()
