"""Batches for the teacher: small enough, and reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.caches import batches_with, make, rows
from kit.helpers import LENGTH

from kdkit import data
from kdkit.data import stream
from kdkit.taps import Entry
from kdkit.teacher_cache.shards import BATCH_ROWS, cut


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
    every = cut(np.arange(len(lengths)), lengths, keys, bytes_of)
    assert sorted(np.concatenate(every)) == list(range(len(lengths)))
    for batch in every:
        size = len(batch) * bytes_of(lengths[batch].max())
        assert len(batch) <= BATCH_ROWS
        assert len(batch) == 1 or size <= stream.BATCH_BYTES
    left = [batch for place, batch in enumerate(every) if place not in done]
    rest = np.array(sorted(row for batch in left for row in batch), int)
    again = cut(rest, lengths, keys, bytes_of)
    assert [batch.tolist() for batch in again] == [
        batch.tolist() for batch in left
    ]


@pytest.fixture
def narrow(monkeypatch):
    """Batches of 900 bytes."""
    monkeypatch.setattr(stream, "BATCH_BYTES", 900)


def test_wide_outputs_come_in_small_batches(tmp_path, teacher, narrow):
    encoded = rows(30)
    entries = [Entry("attention_logits", 2)]  # 288 bytes of the longest row
    cached = make(tmp_path, teacher).outputs(encoded, entries)
    batches = data.BatchStream(encoded, data.Buckets(64), features=cached)
    labels = []
    for x, y in batches.evaluation():
        labels += y.numpy().tolist()
        size = x["attention_logits/2"].numpy().nbytes
        assert 300 < size <= 900  # as many rows as there is room for
    assert sorted(labels) == list(range(30))
    # Of training the user says how many rows a batch has.
    assert max(len(y) for _, y in batches_with(encoded, cached)) == 4
    found = cached(np.arange(30), LENGTH)["attention_logits/2"]
    assert found.any(axis=(1, 2, 3)).all()
