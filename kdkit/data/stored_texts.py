"""Stores texts without labels, and their translations, encoded, on disk.

The texts are read twice, line by line: first to choose them, then to encode
those that were chosen. Memory holds a few numbers per text.

A translation is a row, too. Its source is the text of the same line in the
first language, which may be the text itself.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.selection import Choice, choose, take, text_hash
from kdkit.data.store import ENCODED, read_columns, store_encoded


def store_texts(
    choose_texts: Callable[[], tuple[Iterable[str], dict]],
    tokenizer,
    sequence_length: int,
    directory,
    prompts: tuple[str, ...] = ("",),
) -> tuple[EncodedExamples, dict]:
    """Encodes texts and writes them to disk, or opens the stored ones.

    `choose_texts` returns the texts and the counts of all texts; it is called
    for texts that are not stored. The prompts are put before the texts in turn.
    """

    def read(about):
        texts, about["counts"] = choose_texts()
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
        def choose_texts():
            texts = itertools.chain.from_iterable(read())
            return take(texts, rows), {}

        return store_texts(choose_texts, tokenizer, sequence_length, folder)[0]

    sources_folder = directory.with_name(f"{directory.name}_sources")
    sources = store(teacher_tokenizer, rows[is_source], sources_folder)
    return StoredTranslations(
        **vars(store(tokenizer, rows, directory)),
        languages=languages,
        source_rows=np.searchsorted(groups[is_source], groups),
        sources=sources,
    )
