"""What the system says of a disk, in one line with what helps."""

import contextlib
import errno
import os
import pathlib
import shutil

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.io.machine import byte_size

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
LONGEST_NAME = 300  # of a path in a message
UNCHANGED = "What was there before is unchanged."


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
        number: int. What the system said, as in `OF_THE_DISK`.
        kept: string. What is left.
        what: string. What it cannot be. Defaults to `"written"`.
    """
    free = ""
    name = "A file"
    if path is not None:
        path = pathlib.Path(os.fsdecode(path))
        name = str(path)
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}..."
        # What has too long a name is no directory either.
        with contextlib.suppress(OSError, IndexError):
            places = (path, *path.parents)
            folders = [place for place in places if place.is_dir()]
            left = shutil.disk_usage(folders[0]).free
            free = f" ({byte_size(left)} are free)"
    advice = OF_THE_DISK.get(number, "Is it there?").format(free=free)
    return f"{name} cannot be {what}: {os.strerror(number)}. {kept} {advice}"
