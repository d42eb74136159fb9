"""Locks, which die with their process, and files that several add to."""

import contextlib
import errno
import fcntl
import os
import pathlib

from kdkit.disk import writing
from kdkit.errors import RunError
from kdkit.errors import UsageError

# What it says of a file system that knows no locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
IN_USE = ".in_use"


@contextlib.contextmanager
def locked(
    path: pathlib.Path, busy: str | None = None, waiting: str | None = None
):
    """Holds a lock file; the system frees it when its process dies.

    Args:
        path: `pathlib.Path` of the lock file, in a folder that is there.
        busy: string or `None`. What is wrong if another process holds it;
            `None` to wait for that process. Defaults to `None`.
        waiting: string or `None`. What is printed before a wait. Defaults to
            `None`.

    Raises:
        UsageError: (a `ValueError`) with `busy`.
        RunError: where there can be no such file.
    """
    with contextlib.ExitStack() as stack:
        with writing(path):
            held = False
            while not held:
                file = stack.enter_context(
                    open(path, "a", opener=_open_no_link)
                )
                held = _take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not held and busy is not None:
                    raise UsageError(busy)
                if not held:
                    if waiting is not None:
                        print(waiting, flush=True)
                    _take(file, fcntl.LOCK_EX)
                # Who had it may have removed the file meanwhile.
                held = _is_at(path, file)
        yield


@contextlib.contextmanager
def alone_with(output: pathlib.Path, other: str):
    """Refuses where another process writes the same file.

    Args:
        output: `pathlib.Path`, in a folder that is there. The lock beside it is
            gone after a block that ends well.
        other: string. What may be named instead, such as `"file"`.

    Raises:
        UsageError: (a `ValueError`) if another process writes it.
        RunError: where there can be no lock.
    """
    lock = output.with_name(f".{output.name}.lock")
    busy = (
        f"Another process writes {output}. Wait for it, or name another "
        f"{other}."
    )
    with locked(lock, busy):
        yield
        lock.unlink()


@contextlib.contextmanager
def in_use(folder: pathlib.Path):
    """Marks a folder as one that a process works in, for `is_in_use`.

    Args:
        folder: `pathlib.Path`. A file `.in_use` is made in it.
    """
    with open(folder / IN_USE, "w") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_in_use(folder: pathlib.Path) -> bool:
    """Returns whether a process is in `in_use` of a folder.

    Args:
        folder: `pathlib.Path`.
    """
    try:
        with open(folder / IN_USE, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # none was marked, or there are no locks
        return False
    return False


@contextlib.contextmanager
def one_at_a_time(folder: pathlib.Path):
    """Waits until no other process is in this of a folder.

    Args:
        folder: `pathlib.Path` of a folder that is there.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # A process that was forked meanwhile has the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _take(file, how):
    """Locks an open file; `False` where another process holds it."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise RunError(
            f"{file.name} cannot be locked: {error.strerror}. Its file system "
            "has no locks, without which two processes could write the same "
            "files. Use another place, or mount it with them (Lustre: -o "
            "flock; NFS: with its lock daemon)."
        ) from error
    return True


def append_line(path: pathlib.Path, line: str) -> None:
    """Adds a line to a text file, whole or not at all.

    What a process that died left of a line ends there, so that it does not
    spoil the next one.

    Args:
        path: `pathlib.Path`. It is made if needed.
        line: string without its end.

    Raises:
        RunError: where the disk does not take it.
    """
    with appending(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        begin = b"" if file.read(1) in (b"", b"\n") else b"\n"
        content = begin + line.encode() + b"\n"
        try:
            # Without a buffer, a disk that fills up may take a part.
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


@contextlib.contextmanager
def appending(path: pathlib.Path):
    """Opens a file to add to it; others wait who do the same.

    Who replaces the file holds this, too, so that no line goes to the old one.

    Args:
        path: `pathlib.Path`. It is made if needed.

    Yields:
        The file, in binary and without a buffer.

    Raises:
        RunError: where the disk does not take what is done with it.
    """
    while True:
        with (
            writing(path),
            open(path, "a+b", buffering=0, opener=_open_no_link) as file,
        ):
            _take(file, fcntl.LOCK_EX)
            if _is_at(path, file):  # not replaced while this waited
                yield file
                return


def _open_no_link(path, flags):
    """For `open`: a link could lead to any file, which would be changed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_at(path, file):
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
