"""Stores texts without labels, encoded, on disk.

The texts are read twice, line by line: first to choose them, then to encode
those that were chosen. Memory holds a few numbers per text.
"""

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import text_hash
from kdkit.data.store import ENCODED, read_columns, store_encoded


def store_texts(
    choose: Callable[[], tuple[Iterable[str], dict]],
    tokenizer,
    sequence_length: int,
    directory,
    prompts: tuple[str, ...] = ("",),
) -> tuple[EncodedExamples, dict]:
    """Encodes texts and writes them to disk, or opens the stored ones.

    `choose` returns the texts and the counts of all texts; it is called for
    texts that are not stored. The prompts are put before the texts in turn.
    """

    def read(about):
        texts, about["counts"] = choose()
        for text, prompt in zip(texts, itertools.cycle(prompts), strict=False):
            yield text_hash(text), (prompt + text,)

    encoded, _, about = store_encoded(
        read, tokenizer, sequence_length, directory
    )
    return encoded, about["counts"]


def read_hashes(directory) -> np.ndarray | None:
    """Returns the hashes of stored texts, see `text_hash`."""
    found = read_columns(directory, ENCODED)
    return None if found is None else np.array(found[0]["numbers"])
