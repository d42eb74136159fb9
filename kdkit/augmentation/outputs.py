"""The name of a file of augmented rows: new, and written by one process."""

import contextlib
import pathlib

from kdkit.errors import UsageError
from kdkit.locks import alone_with


def check_output(output) -> None:
    """Checks that a file of this name would be new.

    Raises:
        UsageError: if it is there already.
    """
    if pathlib.Path(output).exists():
        raise UsageError(
            f"{output} is there already. Expected the name of a new file. "
            "Remove it, or name another."
        )


@contextlib.contextmanager
def written_alone(output: pathlib.Path):
    """Keeps other processes from writing a file meanwhile.

    Args:
        output: `pathlib.Path`, which is there at the end of the block.

    Raises:
        UsageError: if another process is writing it, or it is there already.
    """
    check_output(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(output, "file"):
        check_output(output)  # another may just have finished it
        yield
