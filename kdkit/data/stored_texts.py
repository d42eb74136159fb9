"""Stores texts without labels, encoded, on disk.

The texts are read twice, line by line: first to choose them, then to encode
those that were chosen. Memory holds a few numbers per text.
"""

import array
import contextlib
import dataclasses
import hashlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples, encoded_steps
from kdkit.data.unlabeled import normalized
from kdkit.errors import UsageError
from kdkit.io.files import (
    digest,
    fits_own_digest,
    staged,
    with_own_digest,
    write_text,
)
from kdkit.io.reading import has_text, read_json

INDEX = "index.json"
COLUMNS = {"token_ids": "int32", "lengths": "int32", "hashes": "uint64"}
COUNTS = ("texts", "empty", "repeated", "left_out")
NUMBERS = ("num_truncated", *COUNTS)


def text_hash(text: str) -> int:
    """Returns 64 bits that identify a text."""
    content = normalized((text,))[0].encode(errors="surrogatepass")
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=8).digest(), "big"
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TextChoice:
    """The lines to train on, and the counts of the other ones."""

    is_chosen: np.ndarray
    counts: dict[str, int]

    def part(self, every: int, held_out: bool) -> np.ndarray:
        """Returns which lines are held out, or which others are chosen."""
        number = np.cumsum(self.is_chosen) - 1
        is_held_out = (
            self.is_chosen & bool(every) & (number % max(every, 1) == 0)
        )
        return is_held_out if held_out else self.is_chosen & ~is_held_out


def choose_texts(lines: Iterable[str], known: Iterable[str] = ()) -> TextChoice:
    """Chooses the lines that have text, once each, without known texts."""
    hashes, has_one = array.array("Q"), bytearray()
    for line in lines:
        has_one.append(has_text(line))
        if has_one[-1]:
            hashes.append(text_hash(line))
    hashes = (
        np.frombuffer(hashes, "uint64") if hashes else np.empty(0, "uint64")
    )
    is_first = np.zeros(len(hashes), "bool")
    is_first[np.unique(hashes, return_index=True)[1]] = True
    is_known = np.isin(hashes, np.array([*map(text_hash, known)], "uint64"))
    is_chosen = np.frombuffer(has_one, "bool").copy()
    is_chosen[is_chosen] = is_first & ~is_known
    return TextChoice(
        is_chosen,
        {
            "texts": len(hashes),
            "empty": len(has_one) - len(hashes),
            "repeated": int((~is_first & ~is_known).sum()),
            "left_out": int(is_known.sum()),
        },
    )


@dataclasses.dataclass(frozen=True, eq=False)
class StoredTexts(EncodedExamples):
    """Texts whose token ids are mapped from a file."""

    counts: dict[str, int] = dataclasses.field(kw_only=True)

    def contents(self):
        ends = (self.starts + self.lengths).tolist()
        for start, end in zip(self.starts.tolist(), ends, strict=True):
            yield (
                np.array(self.token_ids[start:end]),
                np.zeros(end - start, "int32"),
            )


def store_texts(
    read: Callable[[], Iterable[str]],
    choose: Callable[[], TextChoice],
    tokenizer,
    sequence_length: int,
    directory,
    every: int = 0,
    held_out: bool = False,
    prompts: tuple[str, ...] = ("",),
) -> StoredTexts:
    """Encodes texts and writes them to disk, or opens the stored ones."""
    directory = pathlib.Path(directory)
    index = _read_index(directory)
    if index is None:
        choice = choose()
        is_wanted = choice.part(every, held_out)
        if not is_wanted.any():
            raise UsageError(
                "No text is left to "
                f"{'measure on' if held_out else 'train on'}. Expected at "
                "least one that is not empty, not repeated and not in the "
                "data for evaluation. Received: "
                f"{_in_words(choice, every)}. Name more text."
            )
        lines = (
            (line,)
            for line, is_one in zip(read(), is_wanted.tolist(), strict=True)
            if is_one
        )
        _store(
            lines, tokenizer, sequence_length, directory, choice.counts, prompts
        )
        index = _read_index(directory)
    token_ids, lengths = (
        _column(directory, name) for name in list(COLUMNS)[:2]
    )
    return StoredTexts(
        token_ids=token_ids,
        # One zero, which takes no memory per token.
        segment_ids=np.broadcast_to(np.zeros((), "int8"), token_ids.shape),
        lengths=np.array(lengths),
        labels=None,
        sequence_length=sequence_length,
        num_truncated=index["num_truncated"],
        pad_token_id=tokenizer.pad_token_id,
        counts={name: index[name] for name in COUNTS},
    )


def read_hashes(directory) -> np.ndarray | None:
    """Returns the sorted hashes of stored texts, see `text_hash`."""
    directory = pathlib.Path(directory)
    if _read_index(directory) is None:
        return None
    return np.array(_column(directory, "hashes"))


def _in_words(choice, every):
    counts = choice.counts
    return (
        f"{counts['texts']} texts, {counts['repeated']} of them repeated, "
        f"{counts['left_out']} in the data for evaluation and "
        f"{choice.part(every, held_out=True).sum()} held out, and "
        f"{counts['empty']} empty lines"
    )


def _store(rows, tokenizer, sequence_length, directory, counts, prompts):
    """Writes the columns, then the index: an index means success."""
    (directory / INDEX).unlink(missing_ok=True)
    hashes, num_truncated = array.array("Q"), 0

    def hashed():
        pairs = zip(rows, itertools.cycle(prompts), strict=False)
        for (text,), prompt in pairs:
            hashes.append(text_hash(text))
            yield (prompt + text,)

    with contextlib.ExitStack() as stack:
        paths = {
            name: stack.enter_context(staged(directory / name))
            for name in COLUMNS
        }
        files = {
            name: stack.enter_context(open(path, "wb"))
            for name, path in paths.items()
        }
        for step in encoded_steps(hashed(), 1, tokenizer, sequence_length):
            num_truncated += int(step["truncated"].sum())
            for name in ("token_ids", "lengths"):
                files[name].write(step[name].astype(COLUMNS[name]).tobytes())
        files["hashes"].write(
            np.sort(np.frombuffer(hashes, "uint64")).tobytes()
        )
    index = {
        "num_truncated": num_truncated,
        **counts,
        "bytes": {name: (directory / name).stat().st_size for name in COLUMNS},
        "sha256": _digests(directory),
    }
    write_text(directory / INDEX, json.dumps(with_own_digest(index)))


def _digests(directory):
    """The checksums of the columns by name."""
    return {name: digest(directory / name) for name in COLUMNS}


def _read_index(directory):
    """The index of complete and unchanged columns, otherwise `None`."""
    try:
        index = read_json(directory / INDEX, "an index", _of_index)
        sizes = {name: (directory / name).stat().st_size for name in COLUMNS}
        if sizes != index["bytes"] or index["sha256"] != _digests(directory):
            return None
        lengths = _column(directory, "lengths")
        if (
            not (lengths >= 0).all()
            or int(lengths.sum()) * 4 != sizes["token_ids"]
            or len(lengths) * 8 != sizes["hashes"]
        ):
            return None
    except (OSError, ValueError):  # also UsageError: missing or damaged
        return None
    return index


def _of_index(index):
    """The error in an index, or `None`."""
    if not all(
        type(index.get(name)) is int and index[name] >= 0 for name in NUMBERS
    ):
        return f"expected the numbers {', '.join(NUMBERS)}"
    if not isinstance(index.get("sha256"), dict) or not isinstance(
        index.get("bytes"), dict
    ):
        return "expected the sizes and the checksums of files"
    if not fits_own_digest(index):
        return "expected its content to match its checksum"
    return None


def _column(directory, name):
    return np.memmap(directory / name, dtype=COLUMNS[name], mode="r")
