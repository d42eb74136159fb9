"""Keys: from the teacher's inputs, computed once, and found among others."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kit.caches import rows

from kdkit.teacher_cache.shards import find, row_keys, sequence_keys

# Few numbers, so that halves of keys and whole keys are there twice.
KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12)


@given(KEYS, KEYS)
def test_the_first_of_the_same_keys_is_found(wanted, known):
    found = find(
        np.array(wanted, "uint64").reshape(-1, 2),
        np.array(known, "uint64").reshape(-1, 2),
    )
    assert found.tolist() == [
        known.index(key) if key in known else -1 for key in wanted
    ]


def test_rows_are_hashed_once(monkeypatch):
    encoded = rows(5, sequences_per_row=2)
    keys = row_keys(encoded)
    of_sequences = sequence_keys(encoded)
    assert (len(keys), len(of_sequences)) == (5, 10)
    monkeypatch.delattr(hashlib, "blake2b")
    np.testing.assert_array_equal(row_keys(encoded), keys)
    np.testing.assert_array_equal(sequence_keys(encoded), of_sequences)


def test_keys_are_of_tokens_and_segments():
    """Caches that are there were written under these."""
    (key,) = sequence_keys(rows(1))
    content = np.concatenate([rows(1).token_ids, rows(1).segment_ids])
    expected = hashlib.blake2b(content.tobytes(), digest_size=16).digest()
    assert key.tobytes() == expected
