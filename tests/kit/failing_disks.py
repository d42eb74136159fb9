"""Disks that fail at the n-th write, and full ones."""

import builtins
import contextlib
import errno
import io
import os
import pathlib
import subprocess

import pytest

ERRORS = {
    "full": errno.ENOSPC,
    "read-only": errno.EROFS,
    "forbidden": errno.EACCES,
    "broken": errno.EIO,
}
CALLS = ("open", "write", "fsync", "replace", "mkdir")


class Disk:
    """Counts what a program asks of the disk within a folder.

    Args:
        folder: path. Calls about files elsewhere are let through.
        fails_at: int or `None`. The number of the call, from 1, that fails;
            `None` for none.
        number: int. With which error.
        once: bool. Whether the calls after that one are let through.
    """

    def __init__(self, folder, fails_at=None, number=errno.ENOSPC, once=True):
        self.folder = os.path.realpath(folder)
        self.fails_at = fails_at
        self.number = number
        self.once = once
        self.calls = []

    def asked(self, call, path):
        """Counts a call; raises where it is to fail."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        path = os.path.realpath(os.fsdecode(path))
        if not path.startswith(self.folder):
            return
        self.calls.append((call, os.path.basename(path)))
        count = len(self.calls)
        fails = self.fails_at is not None and (
            count == self.fails_at if self.once else count >= self.fails_at
        )
        if fails:
            raise OSError(self.number, os.strerror(self.number), path)


class _File:
    """A file of which every write is counted."""

    def __init__(self, file, disk, path):
        self._file, self._disk, self._path = file, disk, path

    def write(self, content):
        self._disk.asked("write", self._path)
        return self._file.write(content)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __iter__(self):
        return iter(self._file)

    def __next__(self):
        return next(self._file)


@contextlib.contextmanager
def disk(folder, **how):
    """Puts a `Disk` between the program and the system; yields it."""
    own = Disk(folder, **how)
    real = {name: getattr(os, name) for name in ("fsync", "replace", "mkdir")}
    real_open = builtins.open

    def counted(name):
        def call(path, *arguments, **options):
            own.asked(name, path)
            return real[name](path, *arguments, **options)

        return call

    def opened(path, mode="r", *arguments, **options):
        writes = set(mode) & set("wax+")
        if writes and not isinstance(path, int):
            own.asked("open", path)
        file = real_open(path, mode, *arguments, **options)
        is_path = not isinstance(path, int)
        return _File(file, own, path) if writes and is_path else file

    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(os, name, counted(name))
        patch.setattr(builtins, "open", opened)
        patch.setattr(io, "open", opened)
        yield own


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, megabytes: int):
    """Mounts a file system of this size; skips where that is forbidden."""
    folder.mkdir(exist_ok=True)
    size = f"size={megabytes}m"
    _mount("-t", "tmpfs", "-o", size, "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def read_only(folder: pathlib.Path):
    """Lets a mounted file system be read alone for a while."""
    _mount("-o", "remount,ro", str(folder))
    try:
        yield
    finally:
        _mount("-o", "remount,rw", str(folder))


def _mount(*arguments):
    done = subprocess.run(
        ["mount", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(
            f"no file system can be mounted here: {done.stderr.strip()}"
        )
