"""Atomic writes under temporary names, and checksums of files."""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import sys
import tempfile

from kdkit.errors import shortened
from kdkit.io.disk import writing
from kdkit.io.locks import in_use

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # for Linux' renameat2
MARK = ".kdkit-"  # in the names of temporary folders
DIGEST = re.compile("[0-9a-f]{16}")  # the form of a checksum from `digest`
# A temporary folder, or the lock file next to it.
LEFT_OVER = re.compile(rf"\..+{re.escape(MARK)}[a-z0-9_]{{8}}(\.lock)?")


@contextlib.contextmanager
def staged(path: pathlib.Path, num_bytes: int = 0):
    """Yields a path to write to, and renames the written file to `path`.

    Replaces an earlier file or folder at `path`, but never a folder by a file
    or a file by a folder. If the block raises, the new file is removed and the
    earlier one stays. The content is flushed to the disk before the rename, and
    the rename before the block ends: neither a killed process nor a crashed
    machine leaves a partial file at `path`.

    Args:
        path: `pathlib.Path`. The final name. Its folder is created if needed.
        num_bytes: int. Disk space to reserve before the block runs, see
            `reserve`. Defaults to `0`.

    Raises:
        RunError: for a disk error, also inside the block.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with folder_beside(path) as folder:
            partial = folder / path.name
            reserve(folder, num_bytes)
            yield partial
            flush(partial)
            rename(partial, path)


@contextlib.contextmanager
def folder_beside(path):
    """Yields a temporary folder next to a path, and removes it at the end.

    The folder is locked, so that no other process removes it.

    Args:
        path: `pathlib.Path`. Its folder must exist.
    """
    folder = path.with_name(f".{path.name}{MARK}{secrets.token_hex(4)}")
    with in_use(folder):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def reserve(folder: pathlib.Path, num_bytes: int) -> None:
    """Checks that a disk has space by allocating it and freeing it again.

    HDF5 ends the process if the disk is full when a file is closed. So disk
    space is checked before weights are written. Does nothing on systems without
    `posix_fallocate`, such as macOS.

    Args:
        folder: `pathlib.Path`.
        num_bytes: int. The number of bytes; 0 checks nothing.

    Raises:
        OSError: if there is less space.
    """
    if num_bytes and hasattr(os, "posix_fallocate"):
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)


def flush(path: pathlib.Path) -> None:
    """Waits until a file, or a folder with its content, is on the disk."""
    if path.is_dir():
        for item in path.iterdir():
            flush(item)
    _flush_one(path)


def _flush_one(path):
    if sys.platform == "win32":  # flushes only files opened for writing
        if path.is_file():
            with open(path, "r+b") as file:
                os.fsync(file.fileno())
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(partial: pathlib.Path, path: pathlib.Path) -> None:
    """Renames a file or a folder, and flushes the rename to the disk.

    Replaces an earlier file or folder atomically: readers see the old content
    or the new, never neither.

    Args:
        partial: `pathlib.Path` on the same file system.
        path: `pathlib.Path`.

    Raises:
        OSError: if a file would replace a folder, or a folder a file.
    """
    if path.is_dir() and not partial.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, os.strerror(errno.EISDIR), str(path)
        )
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
    """Swaps two names in one step; returns whether the system supports it."""
    if not sys.platform.startswith("linux"):
        return False
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
    """Writes a UTF-8 text file atomically, see `staged`.

    Args:
        path: `pathlib.Path`. An earlier file is replaced.
        text: string.

    Raises:
        RunError: for a disk error.
    """
    with (
        staged(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as file,
    ):
        file.write(text)


def remove_left_over(folder: pathlib.Path) -> None:
    """Removes temporary folders that killed processes left in a folder.

    Does not remove what another process is writing. Ignores subfolders that
    have their own lock.

    Args:
        folder: `pathlib.Path`.
    """
    with contextlib.suppress(FileNotFoundError):  # another process removed it
        for item in sorted(folder.iterdir()):
            _remove_left_over(item)


def _remove_left_over(item):
    if item.is_symlink():
        return
    if is_left_over(item):
        folder = item.with_name(item.name.removesuffix(".lock"))
        with contextlib.suppress(OSError), in_use(folder) as is_mine:
            if is_mine:  # no other process writes in it
                shutil.rmtree(folder, ignore_errors=True)
    elif item.is_dir() and not (item / ".lock").exists():
        remove_left_over(item)


def is_left_over(path: pathlib.Path) -> bool:
    """Whether a path has the name of a temporary folder from `staged`."""
    return bool(LEFT_OVER.fullmatch(path.name))


def digest(*paths: pathlib.Path) -> str:
    """Returns a checksum of files: 16 hexadecimal digits.

    Args:
        paths: `pathlib.Path`s of files, or of directories with all their files.
            The names within a directory count, the directory's path does not.

    >>> digest()
    'e3b0c44298fc1c14'
    """
    total = hashlib.sha256()
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            total.update(file.relative_to(path).as_posix().encode())
            with open(file, "rb") as content:
                total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:16]


def content_digest(content) -> str:
    """Returns the `digest` of one file from its SHA-256 hash.

    Args:
        content: `hashlib.sha256` object that was updated with the content.
    """
    return hashlib.sha256(b"." + content.digest()).hexdigest()[:16]


def add_content(content, path: pathlib.Path, num_bytes: int) -> None:
    """Updates a `hashlib.sha256` object with the first bytes of a file."""
    with open(path, "rb") as file:
        while num_bytes > 0 and (some := file.read(min(num_bytes, 1 << 20))):
            content.update(some)
            num_bytes -= len(some)


def digest_of_text(text: str) -> str:
    """Returns a checksum of a text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def change_in_words(name: str, before, now) -> str:
    """Describes how an input has changed, without checksums.

    Args:
        name: string. The input's name in the message.
        before: JSON value or checksum that was recorded.
        now: JSON value or checksum that was received.

    >>> change_in_words("teacher", "e3b0c44298fc1c14", "0f343b0931126a20")
    'the content of the teacher has changed'
    >>> change_in_words("teacher", "bert_tiny_en_uncased", "0f343b0931126a20")
    "teacher was 'bert_tiny_en_uncased', is other files"
    """
    is_content = [
        isinstance(value, str) and DIGEST.fullmatch(value) is not None
        for value in (before, now)
    ]
    if all(is_content):
        return f"the content of the {name} has changed"
    was, is_now = (
        "other files" if is_digest else shortened(value)
        for value, is_digest in zip((before, now), is_content, strict=True)
    )
    return f"{name} was {was}, is {is_now}"


CHECKSUM_FIELD = "own_digest"


def with_own_digest(fields: dict) -> dict:
    """Returns fields with a checksum of all of them.

    Args:
        fields: dict for `json.dumps`.

    >>> with_own_digest({"rows": {7: (1, 2)}})["rows"]
    {'7': [1, 2]}
    """
    fields = json.loads(json.dumps(fields))
    return {**fields, CHECKSUM_FIELD: _digest(fields)}


def fits_own_digest(fields: dict) -> bool:
    """Whether fields match their checksum.

    Fields without a checksum, from earlier versions, are accepted.

    Args:
        fields: dict from JSON.

    >>> fits_own_digest(with_own_digest({"rows": 3}))
    True
    >>> fits_own_digest({**with_own_digest({"rows": 3}), "rows": 4})
    False
    """
    return fields.get(CHECKSUM_FIELD) in (None, _digest(without_digest(fields)))


def without_digest(fields: dict) -> dict:
    """Returns the fields without their checksum.

    Args:
        fields: dict.
    """
    return {name: fields[name] for name in fields if name != CHECKSUM_FIELD}


def _digest(fields):
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
