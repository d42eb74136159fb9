"""Whether there is a place, and room, for what teachers will say."""

import os
import pathlib
import shutil

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.quantities import byte_size
from kdkit.teacher_cache.index import Index

HEADROOM = 1.1  # of the free disk over what will be written


def check_place(directory) -> None:
    """Refuses a place where there can be no folder; makes none.

    Args:
        directory: path.

    Raises:
        UsageError: (a `ValueError`) if something else stands there, or a new
            one cannot be made.
    """
    place = pathlib.Path(directory).absolute()
    there = next(one for one in (place, *place.parents) if os.path.lexists(one))
    if not there.is_dir():
        problem = f"{there} is no directory"
    elif there != place and not os.access(there, os.W_OK | os.X_OK):
        problem = f"nothing can be made in {there}"
    else:
        return
    raise UsageError(
        f"There can be no cache in {os.fspath(directory)}: {problem}. Expected "
        "a directory, or the name of a new one."
    )


def check_room(directory, size: int) -> None:
    """Refuses what does not fit, before the first byte of it is written.

    Args:
        directory: path of a folder that is there.
        size: int. Bytes.

    Raises:
        RunError: with what is needed and what is free.
    """
    free = shutil.disk_usage(directory).free
    if size * HEADROOM > free:
        raise RunError(
            f"The teacher's outputs need {byte_size(size)} in "
            f"{os.fspath(directory)}, where {byte_size(free)} "
            "are free. Use a smaller precision (bf16, int8), fewer rows, "
            "or another disk."
        )


def part_of_cache(directory, part: tuple[int, int]) -> pathlib.Path:
    """Returns the folder that part i, from 0, of n of a cache is filled in.

    >>> part_of_cache("cache", (0, 4)).name
    'part_1_of_4'
    """
    which, count = part
    return pathlib.Path(directory) / f"part_{which + 1}_of_{count}"


def size_of_other_parts(directory, part: tuple[int, int]) -> int:
    """Returns the bytes of what the other parts of a cache hold.

    Args:
        directory: path of the whole cache.
        part: tuple of ints i, n.
    """
    which, count = part
    return sum(
        Index.size_of(part_of_cache(directory, (other, count)))
        for other in range(count)
        if other != which
    )
