"""Files: temporary names until they are complete, checksums."""

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

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux' renameat2
MARK = ".kdkit-"  # in the names of folders to write in, of no other program's
DIGEST = re.compile("[0-9a-f]{16}")  # what `digest` returns
# A folder to write in, and the lock file next to it.
LEFT_OVER = re.compile(rf"\..+{re.escape(MARK)}[a-z0-9_]{{8}}(\.lock)?")


@contextlib.contextmanager
def staged(path: pathlib.Path, num_bytes: int = 0):
    """Yields a path to write to, and renames what is there to `path`.

    What was at `path` before is replaced, but a folder by no file and a file by
    no folder. If the body raises, nothing is left of the new file and what was
    there stays. What gets the name is on the disk before, and so is the name at
    the end: neither the death of the process nor that of the machine leaves
    half a file under it.

    Args:
        path: `pathlib.Path`. The final name. Its folder is made if needed.
        num_bytes: int. Room that is asked for before the body runs, as
            `reserve` does. Defaults to `0`.

    Raises:
        RunError: where the disk does not take it, also in the body.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _folder_beside(path) as folder:
            partial = folder / path.name
            reserve(folder, num_bytes)
            yield partial
            flush(partial)
            rename(partial, path)


@contextlib.contextmanager
def _folder_beside(path):
    """Makes a folder to write in, locked before `remove_left_over` sees it."""
    folder = path.with_name(f".{path.name}{MARK}{secrets.token_hex(4)}")
    with in_use(folder):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def reserve(folder: pathlib.Path, num_bytes: int) -> None:
    """Asks for room on a disk, and gives it back for what is written next.

    HDF5 does not survive a disk that is full when a file is closed: it ends the
    process. So weights are written where they have room. Not on systems that
    cannot tell, such as macOS.

    Args:
        folder: `pathlib.Path`.
        num_bytes: int. How much; nothing is done for 0.

    Raises:
        OSError: where there is less.
    """
    if num_bytes and hasattr(os, "posix_fallocate"):
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)


def flush(path: pathlib.Path) -> None:
    """Waits until a file, or a folder with all in it, is on the disk."""
    if path.is_dir():
        for item in path.iterdir():
            flush(item)
    _flush_one(path)


def _flush_one(path):
    if sys.platform == "win32":  # flushes files open for writing, no folders
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
    """Gives a file or a folder its name, on the disk too.

    What had the name before is replaced, at no moment of which there is none:
    a file by a file, a folder by a folder.

    Args:
        partial: `pathlib.Path`. On the same file system.
        path: `pathlib.Path`.

    Raises:
        OSError: where a file would replace a folder, or a folder a file.
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
    """Swaps two names in one step; returns whether the system can do that."""
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


def remove_left_over(folder: pathlib.Path) -> None:
    """Removes what `staged` left in a folder when its process was killed.

    What another process is writing stays, and folders within it that have a
    lock of their own are passed over.

    Args:
        folder: `pathlib.Path`.
    """
    with contextlib.suppress(FileNotFoundError):  # it was one, and is done
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
    """Whether a path has a name that `staged` gives to what it removes."""
    return bool(LEFT_OVER.fullmatch(path.name))


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
            total.update(file.relative_to(path).as_posix().encode())
            with open(file, "rb") as content:
                total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:16]


def digest_of_content(content) -> str:
    """Returns the `digest` of one file.

    Args:
        content: what `hashlib.sha256` returned and took the content.
    """
    return hashlib.sha256(b"." + content.digest()).hexdigest()[:16]


def add_content(content, path: pathlib.Path, num_bytes: int) -> None:
    """Gives the first bytes of a file to what `hashlib.sha256` returned."""
    with open(path, "rb") as file:
        while num_bytes > 0 and (some := file.read(min(num_bytes, 1 << 20))):
            content.update(some)
            num_bytes -= len(some)


def digest_of_text(text: str) -> str:
    """Returns 16 hexadecimal digits that change when a text does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def change_in_words(name: str, before, now) -> str:
    """Returns how an input differs, for people: without digests.

    Args:
        name: string. What people call the input.
        before: JSON value or digest that was recorded.
        now: JSON value or digest that was received.

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


OWN_DIGEST = "own_digest"


def with_own_digest(fields: dict) -> dict:
    """Returns what JSON is to say, with a digest of all of it.

    Args:
        fields: dict, as `json.dumps` takes it.

    >>> with_own_digest({"rows": {7: (1, 2)}})["rows"]
    {'7': [1, 2]}
    """
    fields = json.loads(json.dumps(fields))
    return {**fields, OWN_DIGEST: _digest(fields)}


def fits_own_digest(fields: dict) -> bool:
    """Whether JSON says what was written.

    What has no digest, as versions before wrote it, is taken for that.

    Args:
        fields: dict, as it was read.

    >>> fits_own_digest(with_own_digest({"rows": 3}))
    True
    >>> fits_own_digest({**with_own_digest({"rows": 3}), "rows": 4})
    False
    """
    return fields.get(OWN_DIGEST) in (None, _digest(without_digest(fields)))


def without_digest(fields: dict) -> dict:
    """Returns all that it says else.

    Args:
        fields: dict.
    """
    return {name: fields[name] for name in fields if name != OWN_DIGEST}


def _digest(fields):
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
