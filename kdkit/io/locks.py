"""Lock files, which the system frees when their process ends, and log lines.

`filelock` takes the locks: with `flock` on Linux and macOS, with `LockFileEx`
on Windows.
"""

import contextlib
import errno
import logging
import os
import pathlib
import socket

import filelock

from kdkit.errors import RunError, UsageError
from kdkit.io.disk import writing

_log = logging.getLogger(__name__)

# Errors of a file system without locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
MAX_HOLDER_BYTES = 300  # of a lock file's content in a message


@contextlib.contextmanager
def locked(
    path: pathlib.Path, busy: str | None = None, waiting: str | None = None
):
    """Holds a lock file; the system frees it when its process dies."""
    with contextlib.ExitStack() as stack:
        with writing(path):
            lock = _lock_file(path)
            stack.callback(lock.release)
            if not _take(lock, 0):
                if busy is not None:
                    raise UsageError(f"{busy}{_holder(path)}")
                if waiting is not None:
                    _log.info(waiting)
                _take(lock, -1)
        yield


@contextlib.contextmanager
def alone_with(output: pathlib.Path, other: str):
    """Raises an error if another process is writing a file."""
    busy = (
        f"Another process writes {output}. Wait for it, or name another "
        f"{other}."
    )
    with _removed_lock(lock_beside(output), busy):
        yield


def lock_beside(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the lock file next to a file or a folder."""
    return path.with_name(f".{path.name.removeprefix('.')}.lock")


def append_line(path: pathlib.Path, line: str) -> None:
    """Appends a line to a text file, completely or not at all."""
    with appending(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        content = begin + line.encode() + b"\n"
        try:
            # A disk that fills up may accept only a part of unbuffered data.
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


@contextlib.contextmanager
def appending(path: pathlib.Path):
    """Opens a file to append to it, while other processes wait for that."""
    with (
        _removed_lock(lock_beside(path)),
        writing(path),
        open(path, "a+b", buffering=0) as file,
    ):
        yield file


@contextlib.contextmanager
def _removed_lock(path, busy=None):
    """Holds a lock file and removes it at the end."""
    with locked(path, busy):
        try:
            yield
        finally:
            _remove(path)


def _lock_file(path):
    return filelock.FileLock(
        path,
        poll_interval=0.01,  # seconds
        # A plain file as a lock would outlive its process.
        fallback_to_soft=False,
        on_acquired=_write_holder,
    )


def _remove(path):
    """Removes a lock file that this process holds."""
    # Windows cannot remove an open file: filelock removes it on release.
    with contextlib.suppress(OSError):
        path.unlink()


def _take(lock, timeout):
    """Acquires a lock; `False` if another process holds it."""
    try:
        lock.acquire(timeout=timeout)
    except filelock.Timeout:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise RunError(
            f"{lock.lock_file} cannot be locked: {error.strerror}. Its file "
            "system has no locks, so two processes could write the same files. "
            "Use another path, or mount the file system with locks (Lustre: "
            "-o flock; NFS: with its lock daemon)."
        ) from error
    return True


def _write_holder(descriptor):
    """Writes the process that holds a lock into the lock file."""
    holder = f"{os.getpid()} on {socket.gethostname()}"
    with contextlib.suppress(OSError):  # locks also work on a full disk
        os.truncate(descriptor, 0)
        os.lseek(descriptor, 1, os.SEEK_SET)
        os.write(descriptor, holder.encode())


def _holder(path):
    """Returns a sentence with the lock's holder, empty if it is unknown."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(1)
            holder = file.read(MAX_HOLDER_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return ""
    is_text = holder and holder.isprintable()
    return f" It is process {holder}." if is_text else ""
