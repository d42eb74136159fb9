"""Files: new ones beside their final name until all is well; their digests."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import tempfile

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.quantities import byte_size

# What the system says where no file can be written, and what helps.
OF_THE_DISK = {
    errno.ENOSPC: "Make room{free}, and give the same command again.",
    errno.EDQUOT: "Make room in your quota, and give the same command again.",
    errno.EFBIG: "Allow larger files (ulimit -f), or use another disk.",
    errno.EROFS: "Name a place that can be written to.",
    errno.EACCES: "Allow it (chmod), or name another place.",
    errno.EPERM: "Allow it (chmod), or name another place.",
    errno.EIO: "The disk may be failing: look at it, and use another one.",
    errno.EMFILE: "Allow more open files (ulimit -n).",
    errno.EEXIST: "Something else has this name: choose another.",
    errno.EISDIR: "Something else has this name: choose another.",
    errno.ENOTDIR: "Something else has this name: choose another.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ELOOP: "It is a link to another place: remove it.",
}
UNCHANGED = "What was there before is unchanged."
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux' renameat2


def disk_problem(error: BaseException) -> int | None:
    """Returns the number of what the system said about a file.

    Libraries tell it in errors of their own, which have the words alone.

    Args:
        error: an exception.

    Returns:
        One of `OF_THE_DISK`, or `None` for an error about something else.

    >>> disk_problem(OSError(errno.ENOSPC, "No space left on device")) == 28
    True
    >>> disk_problem(ValueError("No such layer")) is None
    True
    """
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number is not None:
        return number if number in OF_THE_DISK else None
    text = str(error)
    for number in OF_THE_DISK:
        if os.strerror(number) in text:
            return number
    return None


MARK = ".kdkit-"  # in the names of folders to write in, of no other program's
LEFT_OVER = re.compile(rf"\..+{re.escape(MARK)}[a-z0-9_]{{8}}")


@contextlib.contextmanager
def writing(path, kept: str = UNCHANGED):
    """Says in one line why a file cannot be written.

    Args:
        path: path that is written, for the message.
        kept: string. What is left, for the message.

    Raises:
        RunError: in the place of any error that comes from the disk: it is
            full, may only be read, fails.
    """
    try:
        yield
    except Exception as error:
        number = disk_problem(error)
        if number is None or isinstance(error, RunError | UsageError):
            raise
        raise RunError(describe(path, number, kept)) from error


def describe(
    path, number: int, kept: str = UNCHANGED, what: str = "written"
) -> str:
    """Returns the line that says why a path cannot be written.

    Args:
        path: path, or `None` where the library that writes does not say it.
        number: int. One of `OF_THE_DISK`.
        kept: string. What is left.
        what: string. What it cannot be. Defaults to `"written"`.
    """
    free = ""
    if path is not None:
        path = pathlib.Path(path)
        folders = [place for place in (path, *path.parents) if place.is_dir()]
        with contextlib.suppress(OSError, IndexError):
            left = shutil.disk_usage(folders[0]).free
            free = f" ({byte_size(left)} are free)"
    advice = OF_THE_DISK[number].format(free=free)
    return (
        f"{'A file' if path is None else path} cannot be {what}: "
        f"{os.strerror(number)}. {kept} {advice}"
    )


@contextlib.contextmanager
def staged(path: pathlib.Path, num_bytes: int = 0):
    """Yields a path to write to, and renames what is there to `path`.

    What was at `path` before is replaced. If the body raises, nothing is left
    of the new file and what was there stays. What gets the name is on the disk
    before, and so is the name at the end: neither the death of the process nor
    that of the machine leaves half a file under it.

    Args:
        path: `pathlib.Path`. The final name. Its folder is made if needed.
        num_bytes: int. Room that is asked for before the body runs, as
            `reserve` does. Defaults to `0`.

    Raises:
        RunError: where the disk does not take it, also in the body.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=path.parent,
            prefix=f".{path.name}{MARK}",
            ignore_cleanup_errors=True,
        ) as folder:
            partial = pathlib.Path(folder, path.name)
            reserve(pathlib.Path(folder), num_bytes)
            yield partial
            flush(partial)
            rename(partial, path)


def reserve(folder: pathlib.Path, num_bytes: int) -> None:
    """Asks for room on a disk, and gives it back for what is written next.

    HDF5 does not survive a disk that is full when a file is closed: it ends the
    process. So weights are written where they have room.

    Args:
        folder: `pathlib.Path`.
        num_bytes: int. How much; nothing is done for 0.

    Raises:
        OSError: where there is less.
    """
    if num_bytes:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)


def flush(path: pathlib.Path) -> None:
    """Waits until a file, or a folder with all in it, is on the disk."""
    if path.is_dir():
        for item in path.iterdir():
            flush(item)
    _flush_one(path)


def _flush_one(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(partial: pathlib.Path, path: pathlib.Path) -> None:
    """Gives a file or a folder its name, on the disk too.

    What had the name before is replaced, at no moment of which there is none.

    Args:
        partial: `pathlib.Path`. On the same file system.
        path: `pathlib.Path`.
    """
    if not path.is_dir():
        os.replace(partial, path)
    elif not _exchange(partial, path):
        aside = partial.with_name(f"{path.name}.replaced")
        os.replace(path, aside)
        try:
            os.replace(partial, path)
        except BaseException:
            os.replace(aside, path)
            raise
    _flush_one(path.parent)


def _exchange(first, second):
    """Swaps two names in one step; returns whether the system can do that."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    places = [AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second)]
    if library.renameat2(*places, RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):  # a file system without it
        return False
    raise OSError(number, os.strerror(number), str(second))


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file, as UTF-8 and to the disk, before it gets its name.

    Args:
        path: `pathlib.Path`. What is there is replaced.
        text: string.

    Raises:
        RunError: where the disk does not take it.
    """
    with (
        staged(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as file,
    ):
        file.write(text)


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
            fcntl.flock(file, fcntl.LOCK_EX)
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


def remove_left_over(folder: pathlib.Path) -> None:
    """Removes what `staged` left in a folder when its process was killed.

    Folders within it that have a lock of their own are passed over.

    Args:
        folder: `pathlib.Path`, which no other process writes to.
    """
    for item in sorted(folder.iterdir()):
        if item.is_symlink() or not item.is_dir():
            continue
        if is_left_over(item):
            shutil.rmtree(item)
        elif not (item / ".lock").exists():
            remove_left_over(item)


def is_left_over(path: pathlib.Path) -> bool:
    """Whether a path is a folder that `staged` made and did not remove."""
    return path.is_dir() and bool(LEFT_OVER.fullmatch(path.name))


@contextlib.contextmanager
def locked(path: pathlib.Path, busy: str | None = None):
    """Holds a lock file; the system frees it when its process dies.

    Args:
        path: `pathlib.Path` of the lock file, in a folder that is there.
        busy: string or `None`. What is wrong if another process holds it;
            `None` to wait for that process. Defaults to `None`.

    Raises:
        UsageError: (a `ValueError`) with `busy`.
        RunError: where there can be no such file.
    """
    with contextlib.ExitStack() as stack:
        with writing(path):
            file = stack.enter_context(open(path, "a", opener=_open_no_link))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise UsageError(busy) from error
        yield


def digest(*paths: pathlib.Path) -> str:
    """Returns 16 hexadecimal digits that change when a file's content does.

    Args:
        paths: `pathlib.Path`s of files, or of directories with all in them.
            Where they are makes no difference, what they are called within a
            directory does.

    >>> digest()
    'e3b0c44298fc1c14'
    """
    total = hashlib.sha256()
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            total.update(str(file.relative_to(path)).encode())
            with open(file, "rb") as content:
                total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """Returns 16 hexadecimal digits that change when a text does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
