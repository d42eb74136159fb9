"""Locks: one process at a time."""

import fcntl

import pytest

from kdkit.errors import UsageError
from kdkit.io.locks import alone_with, locked


def test_a_lock_that_was_removed_before_it_was_taken_is_made_anew(
    tmp_path, monkeypatch
):
    """As by another process that ends in `alone_with` at that moment."""
    lock, flock, taken = tmp_path / ".lock", fcntl.flock, []

    def remove_first(file, how):
        if not taken:
            lock.unlink()
        taken.append(file)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with locked(lock):
        assert lock.exists()
        with pytest.raises(UsageError, match="busy"), locked(lock, "busy"):
            pass
    assert len(taken) > 2


def test_two_processes_do_not_write_one_file(tmp_path):
    output = tmp_path / "rows.tsv"
    with (
        alone_with(output),
        pytest.raises(UsageError, match="Another process"),
        alone_with(output),
    ):
        pass
    assert not list(tmp_path.iterdir())
