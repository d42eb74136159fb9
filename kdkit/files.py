"""Files: new ones beside their final name until all is well; their digests."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import tempfile

from kdkit.errors import UsageError

LEFT_OVER = re.compile(r"\..+-[a-z0-9_]{8}")  # as `tempfile` names folders


@contextlib.contextmanager
def staged(path: pathlib.Path):
    """Yields a path to write to, and renames what is there to `path`.

    What was at `path` before is replaced. If the body raises, nothing is left
    of the new file and what was there stays.

    Args:
        path: `pathlib.Path`. The final name. Its folder is made if needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}-"
    ) as folder:
        partial = pathlib.Path(folder, path.name)
        yield partial
        if path.is_dir():
            os.replace(path, pathlib.Path(folder, "replaced"))
        os.replace(partial, path)


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file, as UTF-8 and to the disk, before it gets its name.

    Args:
        path: `pathlib.Path`. What is there is replaced.
        text: string.
    """
    with (
        staged(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as file,
    ):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def give_name(partial: pathlib.Path, path: pathlib.Path) -> None:
    """Renames a file that is complete, and waits until both are on the disk.

    Args:
        partial: `pathlib.Path` of a file, in the folder of `path`.
        path: `pathlib.Path`. Its final name; what is there is replaced.
    """
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
    """
    with open(path, "w") as file:
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
