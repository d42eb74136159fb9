"""Stores texts with their translations, encoded, on disk.

A row is a text in one language. Its source is the text of the same line in the
first language, which may be the text itself.
"""

import array
import dataclasses
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.stored_texts import (
    StoredTexts,
    TextChoice,
    store_texts,
    text_hash,
)
from kdkit.io.reading import has_text


@dataclasses.dataclass(frozen=True, eq=False)
class TranslationChoice:
    """The rows to use, and the counts of the other ones."""

    is_chosen: np.ndarray
    sources: np.ndarray
    counts: dict[str, int]

    def is_part(self, every: int, held_out: bool) -> np.ndarray:
        """Returns which rows are held out, or which others are chosen."""
        is_held_out = bool(every) & (self.sources % max(every, 1) == 0)
        return self.is_chosen & (is_held_out == held_out)[:, np.newaxis]

    def part(self, every: int, held_out: bool) -> np.ndarray:
        """Returns `is_part` in the order in which rows are read."""
        return self.is_part(every, held_out).reshape(-1)

    def sources_only(self) -> TextChoice:
        """Returns the choice of the first language's texts alone."""
        is_chosen = self.is_chosen.copy()
        is_chosen[:, 1:] = False
        return dataclasses.replace(self, is_chosen=is_chosen)


def choose_translations(
    lines: Iterable[tuple[str, ...]], known: Iterable[str] = ()
) -> TranslationChoice:
    """Chooses the texts that have a source, each pair once."""
    hashes, has_one, width = array.array("Q"), bytearray(), 0
    for texts in lines:
        width = len(texts)
        for text in texts:
            has_one.append(has_text(text))
            hashes.append(text_hash(text))
    hashes = np.array(hashes, "uint64").reshape(-1, max(width, 1))
    has_one = np.frombuffer(bytes(has_one), "bool").reshape(hashes.shape)
    has_pair = has_one & has_one[:, :1]
    is_known = np.isin(hashes, np.array([*map(text_hash, known)], "uint64"))
    is_known = has_pair & (is_known | is_known[:, :1])
    is_chosen = has_pair & ~is_known
    first, numbers = _numbers(hashes[:, 0], is_chosen[:, 0])
    is_repeated = np.zeros_like(is_chosen)
    is_repeated[:, 0] = is_chosen[:, 0] & ~first
    for column in range(1, hashes.shape[1]):
        pairs = np.stack([numbers.astype("uint64"), hashes[:, column]], axis=1)
        first, _ = _numbers(pairs, is_chosen[:, column])
        is_repeated[:, column] = is_chosen[:, column] & ~first
    return TranslationChoice(
        is_chosen & ~is_repeated,
        numbers,
        {
            "texts": int(has_pair.sum()),
            "empty": int((~has_pair).sum()),
            "repeated": int(is_repeated.sum()),
            "left_out": int(is_known.sum()),
        },
    )


def _numbers(values, counts):
    """Returns where each value occurs first, and its number; -1 for others."""
    places = np.flatnonzero(counts)
    is_first = np.zeros(len(values), "bool")
    numbers = np.full(len(values), -1, "int64")
    if len(places):
        _, first, inverse = np.unique(
            values[places], axis=0, return_index=True, return_inverse=True
        )
        is_first[places[first]] = True
        order = np.empty(len(first), "int64")
        order[np.argsort(first)] = np.arange(len(first))
        numbers[places] = order[inverse.reshape(-1)]
    return is_first, numbers


@dataclasses.dataclass(frozen=True, eq=False)
class StoredTranslations(StoredTexts):
    """Texts in several languages, whose token ids are mapped from a file."""

    languages: np.ndarray = dataclasses.field(kw_only=True)
    source_rows: np.ndarray = dataclasses.field(kw_only=True)
    sources: StoredTexts = dataclasses.field(kw_only=True)


def store_translations(
    read: Callable[[], Iterable[tuple[str, ...]]],
    choice: TranslationChoice,
    tokenizer,
    teacher_tokenizer,
    sequence_length: int,
    directory,
    every: int = 0,
    held_out: bool = False,
) -> StoredTranslations:
    """Encodes texts and writes them to disk, or opens the stored ones."""
    directory = pathlib.Path(directory)
    stored = store_texts(
        lambda: (text for texts in read() for text in texts),
        lambda: choice,
        tokenizer,
        sequence_length,
        directory,
        every,
        held_out,
    )
    alone = choice.sources_only()
    sources = store_texts(
        lambda: (text for texts in read() for text in texts),
        lambda: alone,
        teacher_tokenizer,
        sequence_length,
        directory / "sources",
        every,
        held_out,
    )
    lines, languages = np.nonzero(choice.is_part(every, held_out))
    numbers = choice.sources[alone.is_part(every, held_out)[:, 0]]
    return StoredTranslations(
        **{
            field.name: getattr(stored, field.name)
            for field in dataclasses.fields(stored)
        },
        languages=languages,
        source_rows=np.searchsorted(numbers, choice.sources[lines]),
        sources=sources,
    )
