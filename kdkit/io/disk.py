"""Disk errors: one line with the problem and its fix."""

import contextlib
import errno
import os
import pathlib
import shutil

from kdkit.errors import RunError, UsageError
from kdkit.io.machine import byte_size

# The system's error numbers when a file cannot be written, with the fixes.
DISK_ERRORS = {
    errno.ENOSPC: "Free disk space{free}, and run the same command again.",
    errno.EDQUOT: "Free space in your quota, and run the same command again.",
    errno.EFBIG: "Allow larger files (ulimit -f), or use another disk.",
    errno.EROFS: "Use a path that is writable.",
    errno.EACCES: "Make it writable (chmod), or use another path.",
    errno.EPERM: "Make it writable (chmod), or use another path.",
    errno.EIO: "The disk may be failing: look at it, and use another one.",
    errno.EMFILE: "Allow more open files (ulimit -n).",
    errno.EEXIST: "Something else has this name: choose another.",
    errno.EISDIR: "Something else has this name: choose another.",
    errno.ENOTDIR: "Something else has this name: choose another.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}
LONGEST_NAME = 300  # characters of a path in a message
UNCHANGED = "What was there before is unchanged."


def disk_problem(error: BaseException) -> int | None:
    """Returns the system's error number for a disk error."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number is not None:
        return number if number in DISK_ERRORS else None
    text = str(error)
    for number in DISK_ERRORS:
        if os.strerror(number) in text:
            return number
    return None


@contextlib.contextmanager
def writing(path, kept: str = UNCHANGED):
    """Converts disk errors inside the block to one line."""
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
    """Returns the line that explains why a path cannot be written."""
    free = ""
    name = "A file"
    if path is not None:
        path = pathlib.Path(os.fsdecode(path))
        name = str(path)
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}..."
        # A path whose name is too long is not a directory either.
        with contextlib.suppress(OSError, IndexError):
            places = (path, *path.parents)
            folders = [place for place in places if place.is_dir()]
            left = shutil.disk_usage(folders[0]).free
            free = f" ({byte_size(left)} are free)"
    advice = DISK_ERRORS.get(number, "Check that it exists.").format(free=free)
    return f"{name} cannot be {what}: {os.strerror(number)}. {kept} {advice}"
