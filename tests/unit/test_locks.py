"""Locks: one process at a time, and free after a process died."""

import fcntl
import subprocess
import sys

import pytest

from kdkit.errors import UsageError
from kdkit.io.locks import alone_with, locked


def test_a_lock_dies_with_its_process(tmp_path):
    lock = tmp_path / ".lock"
    code = (
        "import pathlib, time\n"
        "from kdkit.io.locks import locked\n"
        f"with locked(pathlib.Path({str(lock)!r}), 'busy'):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="busy"), locked(lock, "busy"):
            pass
        holder.kill()
    with locked(lock, "busy"):
        pass


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
