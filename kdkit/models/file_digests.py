"""The digests beside a saved model, since HDF5 does not see a flipped bit."""

import json
import pathlib

from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.files import write_text
from kdkit.reading import read_json

DIGESTS_FILE = "digests.json"
# Dates; names that are compared with the task's; ZIP has sums of its own.
LEFT_OUT = (DIGESTS_FILE, "metadata.json", "labels.json")


def write_digests(directory) -> None:
    """Notes what is in the files of a saved model or tokenizer.

    Args:
        directory: path, with all files but `digests.json`, which is written.
    """
    directory = pathlib.Path(directory)
    files = {
        file.relative_to(directory).as_posix(): file
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        and file.name not in LEFT_OUT
        and file.suffix != ".keras"
    }
    digests = {name: digest(file) for name, file in files.items()}
    write_text(directory / DIGESTS_FILE, f"{json.dumps(digests, indent=1)}\n")


def check_digests(directory: pathlib.Path) -> None:
    """Compares the files of a directory with the digests in it, if any are.

    Args:
        directory: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if a file is gone, or is not what was
            written.
    """
    noted = directory / DIGESTS_FILE
    if not noted.is_file():
        return
    digests = read_json(noted, "the digests of a model's files", _of_digests)
    for name, value in digests.items():
        file = directory / name
        if not file.is_file():
            found = "there is no such file"
        elif digest(file) != value:
            found = "its content is not what was written"
        else:
            continue
        raise UsageError(
            f"{file} is damaged: {found}, by {DIGESTS_FILE} beside it. Restore "
            "it from a copy, or make the model again. If you changed it "
            f"yourself, remove {noted}."
        )


def _of_digests(digests):
    """What is wrong with a list of digests."""
    for name, value in digests.items():
        parts = pathlib.PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            return "it names a file outside of this directory"
        if not isinstance(value, str):
            return "expected texts of hexadecimal digits"
    return None
