"""Lock files, which the system frees when their process ends, and log lines.

`filelock` takes the locks: with `flock` on Linux and macOS, with `LockFileEx`
on Windows.
"""

import contextlib
import logging
import os
import pathlib

from kdkit.errors import UsageError
from kdkit.late import filelock

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(
    path: pathlib.Path, busy: str | None = None, waiting: str | None = None
):
    """Holds a lock file; the system frees it when its process dies."""
    lock = filelock.FileLock(
        path,
        poll_interval=0.01,  # seconds
        # A plain file as a lock would outlive its process.
        fallback_to_soft=False,
    )
    try:
        held = lock.acquire(timeout=0)
    except filelock.Timeout as error:
        if busy is not None:
            raise UsageError(busy) from error
        if waiting is not None:
            _log.info(waiting)
        held = lock.acquire()
    with held:
        yield


@contextlib.contextmanager
def alone_with(output: pathlib.Path):
    """Raises an error if another process is writing a file."""
    busy = f"Another process writes {output}."
    with _removed_lock(lock_beside(output), busy):
        yield


def lock_beside(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the lock file next to a file or a folder."""
    return path.with_name(f".{path.name.removeprefix('.')}.lock")


def append_line(path: pathlib.Path, line: str) -> None:
    """Appends a line to a text file, after the end of one that was cut off."""
    with (
        _removed_lock(lock_beside(path)),
        open(path, "a+b", buffering=0) as file,
    ):
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        content = begin + line.encode() + b"\n"
        # A disk that fills up may accept only a part of unbuffered data.
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())


@contextlib.contextmanager
def _removed_lock(path, busy=None):
    """Holds a lock file and removes it at the end."""
    with locked(path, busy):
        try:
            yield
        finally:
            # Windows cannot remove an open file: filelock does on release.
            with contextlib.suppress(OSError):
                path.unlink()
