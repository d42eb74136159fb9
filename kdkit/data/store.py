"""Columns of numbers on disk, in a folder that is renamed when it is whole."""

import contextlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.encoding import ROWS_PER_STEP, EncodedExamples, encode_step
from kdkit.errors import UsageError
from kdkit.io.files import staged

ABOUT = "about.json"
ENCODED = {
    "token_ids": "int32",
    "segment_ids": "int8",
    "lengths": "int32",
    "numbers": "uint64",
}


def write_columns(
    folder, columns: dict[str, str], steps: Iterable[dict], about: dict
) -> None:
    """Writes the columns of all steps, and what is known about them.

    The steps may add to `about`, which is written last.
    """
    folder = pathlib.Path(folder)
    is_new = not folder.exists() or not any(folder.iterdir())
    if not is_new and not (folder / ABOUT).exists():
        raise UsageError(f"{folder} has other files. Expected a new folder.")
    with staged(folder) as partial:
        partial.mkdir()
        with contextlib.ExitStack() as stack:
            files = {
                name: stack.enter_context(open(partial / name, "wb"))
                for name in columns
            }
            for step in steps:
                for name, file in files.items():
                    file.write(np.asarray(step[name], columns[name]).tobytes())
        sizes = {name: (partial / name).stat().st_size for name in columns}
        content = json.dumps({**about, "sizes": sizes})
        (partial / ABOUT).write_text(content, encoding="utf-8")


def read_columns(folder, columns: dict[str, str]) -> tuple[dict, dict] | None:
    """Returns the columns, mapped from their files, and what is known of them.

    Returns `None` without a folder, and if a file has another size.
    """
    folder = pathlib.Path(folder)
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in columns}
    except OSError:
        return None
    if sizes != about.pop("sizes"):
        return None
    return {
        # An empty file cannot be mapped.
        name: np.memmap(folder / name, dtype, "r")
        if sizes[name]
        else np.empty(0, dtype)
        for name, dtype in columns.items()
    }, about


def store_encoded(
    read: Callable[[dict], Iterable[tuple[int, tuple[str, ...]]]],
    tokenizer,
    sequence_length: int,
    folder,
) -> tuple[EncodedExamples, np.ndarray, dict]:
    """Encodes the numbered texts of `read` on disk, or opens the stored ones.

    `read` may add to its argument, which is stored and returned, too.
    """
    found = read_columns(folder, ENCODED)
    if found is None:
        about = {"num_truncated": 0}

        def steps():
            rows = iter(read(about))
            while some := list(itertools.islice(rows, ROWS_PER_STEP)):
                numbers, texts = zip(*some, strict=True)
                step = encode_step(texts, tokenizer, sequence_length)
                about["num_truncated"] += int(step["truncated"].sum())
                yield {**step, "numbers": np.array(numbers, "uint64")}

        write_columns(folder, ENCODED, steps(), about)
        found = read_columns(folder, ENCODED)
    columns, about = found
    numbers = np.array(columns.pop("numbers"), "int64")
    columns["lengths"] = np.array(columns["lengths"])  # in memory
    encoded = EncodedExamples(
        **columns,
        labels=None,
        sequence_length=sequence_length,
        num_truncated=about["num_truncated"],
        pad_token_id=tokenizer.pad_token_id,
    )
    return encoded, numbers, about
