"""Readers of plain text: lines, documents, and texts that belong together."""

import collections
import csv
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from kdkit.data.tables import JSON_LINES, LONGEST_CELL, PARQUET, open_table
from kdkit.errors import UsageError
from kdkit.io.reading import has_text, numbered_lines

FIRST_LINES = 1000  # lines of a file that are inspected
TABLE_SHARE = 0.9  # of lines with as many cells
TABLES = (".csv", ".tsv", *JSON_LINES, *PARQUET)


def read_rows(
    path, columns: tuple[str, ...] = (), finds_quotes: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yields the place and the texts of each row of a file."""
    if columns:
        yield from open_table(path, columns, finds_quotes).columns(columns)
        return
    reject_table(path)
    for number, line in numbered_lines(path):
        yield f"line {number}", [line.strip()]


def reject_table(path) -> None:
    """Rejects a table, by its name or its cells, where each line is a text."""
    if pathlib.Path(path).suffix.lower() in TABLES or _has_columns(path):
        raise UsageError(
            f"{path} is a table, whose headings and other columns would be "
            "read as text. Name its columns of text."
        )


def _has_columns(path):
    """Whether most of the first lines have as many cells, below headings."""
    first = itertools.islice(numbered_lines(path), FIRST_LINES)
    # Tabs before a text indent it, and tabs after a text are trailing spaces.
    lines = [line.strip() for _, line in first if has_text(line)]
    lines = [line.replace("\r", " ") for line in lines]  # no end for `csv`
    csv.field_size_limit(LONGEST_CELL)
    for separator in "\t,;":
        rows = [*csv.reader(lines, delimiter=separator)]
        counts = collections.Counter(map(len, rows))
        count = max(counts, key=counts.get, default=1)
        if count > 1 < len(rows) and counts[count] >= TABLE_SHARE * len(rows):
            names = [cell.replace("-", "_") for cell in rows[0]]
            # Sentences may have as many commas, but no headings.
            if separator == "\t" or all(map(str.isidentifier, names)):
                return True
    return False


def corpus_lines(files: Iterable, column: str | None = None) -> Iterator[str]:
    """Yields the lines of files or the texts of tables, also empty ones."""
    columns = () if column is None else (column,)
    for file in files:
        for _, (text,) in read_rows(file, columns):
            yield text


def corpus_texts(
    files: Iterable, column: str | None = None, one_document: bool = False
) -> Iterator[str]:
    """Yields the texts of files in order, holding one line at a time.

    With `one_document`, a file is one document, as in WikiText: yields its
    lines with their line ends, and an empty string after the last.
    """
    for file in files:
        lines = corpus_lines([file], column)
        if one_document:
            yield from (f"{line}\n" for line in lines)
            yield ""
        else:
            yield from filter(has_text, lines)


def parallel_rows(
    files: Sequence, columns: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the place of texts that belong together, and the texts.

    They are lines of several files, such as translations, or columns of one or
    more tables. One line of each file is in memory at a time. Texts may be
    empty; empty lines at the end of files do not count.
    """
    if columns:
        for file in files:
            for place, texts in read_rows(file, columns):
                yield f"{file}, {place}", tuple(texts)
        return
    names = ", ".join(map(str, files))
    lines = [corpus_lines([file]) for file in files]
    blank = []
    for number, texts in enumerate(itertools.zip_longest(*lines), start=1):
        blank.append((f"{names}, line {number}", texts))
        if any(map(has_text, filter(None, texts))):
            if None in texts:
                raise UsageError(
                    f"{names} have different numbers of lines, but their lines "
                    "belong together."
                )
            yield from blank
            blank.clear()


def parallel_pairs(
    files: Sequence, columns: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yields the texts of `parallel_rows`, and requires each of them."""
    for place, texts in parallel_rows(files, columns):
        if not all(map(has_text, texts)):
            raise UsageError(f"{place} has no text. Remove it from both sides.")
        yield texts


def require_parallel(files: Sequence, columns: tuple[str, ...] = ()) -> None:
    """Reads all of it, so that files of different lengths are found."""
    collections.deque(parallel_rows(files, columns), maxlen=0)


# For both: tokens to join with the word before, or with the word after.
_QUOTED = re.compile(r' ?" ?(.*?) ?" ?')
_BEFORE = re.compile(r" ([.,;:?!%)\]\n])")
_AFTER = re.compile(r"([(\[$£€]) ")
_ENDINGS = re.compile(r" ('(?:s|m|d|ll|re|ve)|n't)\b", re.IGNORECASE)


def detokenize_wikitext(line: str) -> str:
    """Returns a line of WikiText as running text."""
    for sign in "-,.":
        line = line.replace(f" @{sign}@ ", sign)
    return detokenize_ptb(_QUOTED.sub(r' "\1" ', line).strip(" "))


def detokenize_ptb(line: str) -> str:
    """Returns a line of the Penn Treebank as running text."""
    line = _AFTER.sub(r"\1", _BEFORE.sub(r"\1", line))
    return _ENDINGS.sub(r"\1", line)


DETOKENIZERS: dict[str, Callable[[str], str]] = {
    "wikitext": detokenize_wikitext,
    "ptb": detokenize_ptb,
}
