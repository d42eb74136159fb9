"""Atomic writes under temporary names, and checksums of files."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import sys
import tempfile

MARK = ".kdkit-"  # in the names of temporary folders
DIGEST = re.compile("[0-9a-f]{16}")  # the form of a checksum from `digest`
LEFT_OVER = re.compile(rf"\..+{re.escape(MARK)}[0-9a-f]{{8}}")


@contextlib.contextmanager
def staged(path: pathlib.Path, num_bytes: int = 0):
    """Yields a path to write to, and renames the written file to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(path) as folder:
        partial = folder / path.name
        reserve(folder, num_bytes)
        yield partial
        flush(partial)
        rename(partial, path)


@contextlib.contextmanager
def folder_beside(path):
    """Yields a temporary folder next to a path, and removes it at the end."""
    folder = path.with_name(f".{path.name}{MARK}{secrets.token_hex(4)}")
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reserve(folder: pathlib.Path, num_bytes: int) -> None:
    """Checks that a disk has space by allocating it and freeing it again."""
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
    """Renames a file or a folder, and flushes the rename to the disk."""
    if not (path.is_dir() and partial.is_dir()):
        os.replace(partial, path)
    else:
        aside = partial.with_name(f"{path.name}.replaced")
        os.replace(path, aside)
        try:
            os.replace(partial, path)
        except BaseException:
            os.replace(aside, path)
            raise
    _flush_one(path.parent)


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a UTF-8 text file atomically, see `staged`."""
    with (
        staged(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as file,
    ):
        file.write(text)


def remove_left_over(folder: pathlib.Path) -> None:
    """Removes temporary folders that killed processes left in a folder."""
    for item in sorted(folder.iterdir()):
        if is_left_over(item):
            shutil.rmtree(item, ignore_errors=True)
        # A run inside this one removes its own.
        elif item.is_dir() and not (item / ".lock").exists():
            remove_left_over(item)


def is_left_over(path: pathlib.Path) -> bool:
    """Whether a path has the name of a temporary folder from `staged`."""
    return bool(LEFT_OVER.fullmatch(path.name))


def digest(*paths: pathlib.Path) -> str:
    """Returns a checksum of files: 16 hexadecimal digits."""
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
    """Returns the `digest` of one file from its SHA-256 hash."""
    return hashlib.sha256(b"." + content.digest()).hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """Returns a checksum of a text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def change_in_words(name: str, before, now) -> str:
    """Describes how an input has changed, without checksums."""
    is_content = [
        isinstance(value, str) and DIGEST.fullmatch(value) is not None
        for value in (before, now)
    ]
    if all(is_content):
        return f"the content of the {name} has changed"
    was, is_now = (
        "other files" if is_digest else repr(value)
        for value, is_digest in zip((before, now), is_content, strict=True)
    )
    return f"{name} was {was}, is {is_now}"


CHECKSUM_FIELD = "own_digest"


def with_own_digest(fields: dict) -> dict:
    """Returns fields with a checksum of all of them."""
    fields = json.loads(json.dumps(fields))
    return {**fields, CHECKSUM_FIELD: _digest(fields)}


def fits_own_digest(fields: dict) -> bool:
    """Whether fields match their checksum."""
    return fields.get(CHECKSUM_FIELD) in (None, _digest(without_digest(fields)))


def without_digest(fields: dict) -> dict:
    """Returns the fields without their checksum."""
    return {name: fields[name] for name in fields if name != CHECKSUM_FIELD}


def _digest(fields):
    return digest_of_text(json.dumps(fields, sort_keys=True))
