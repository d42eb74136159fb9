"""Stores texts with their translations, encoded, on disk.

A row is a text in one language. Its source is the text of the same line in the
first language, which may be the text itself.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import Choice, choose, take
from kdkit.data.stored_texts import store_texts


def choose_translations(
    lines: Iterable[tuple[str, ...]], known: Iterable[str] = (), every=0
) -> Choice:
    """Chooses the texts that have a source, each pair once, see `choose`.

    The rows are the texts of all lines, one after the other.
    """
    return choose(
        # The same translation in two languages is two rows: with the source
        # once and twice.
        (
            (*(line[:1] * number), text)
            for line in lines
            for number, text in enumerate(line)
        ),
        known,
        every,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class StoredTranslations(EncodedExamples):
    """Texts in several languages, whose token ids are mapped from a file."""

    languages: np.ndarray = dataclasses.field(kw_only=True)
    source_rows: np.ndarray = dataclasses.field(kw_only=True)
    sources: EncodedExamples = dataclasses.field(kw_only=True)


def store_translations(
    read: Callable[[], Iterable[tuple[str, ...]]],
    part: tuple[np.ndarray, np.ndarray],
    tokenizer,
    teacher_tokenizer,
    sequence_length: int,
    directory,
    num_languages: int,
) -> StoredTranslations:
    """Encodes the texts of `Choice.part` on disk, or opens the stored ones."""
    directory, (rows, groups) = pathlib.Path(directory), part
    languages = rows % num_languages
    is_source = languages == 0

    def store(tokenizer, rows, folder):
        def choose():
            texts = itertools.chain.from_iterable(read())
            return take(texts, rows), {}

        return store_texts(choose, tokenizer, sequence_length, folder)[0]

    sources_folder = directory.with_name(f"{directory.name}_sources")
    sources = store(teacher_tokenizer, rows[is_source], sources_folder)
    return StoredTranslations(
        **vars(store(tokenizer, rows, directory)),
        languages=languages,
        source_rows=np.searchsorted(groups[is_source], groups),
        sources=sources,
    )
