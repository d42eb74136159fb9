"""Readers of plain text: lines, documents, and pairs of texts."""

import collections
import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator

from kdkit.data.examples import without_blank_end
from kdkit.data.tables import JSON_LINES, PARQUET, open_table
from kdkit.errors import UsageError
from kdkit.io.reading import has_text, numbered_lines

FIRST_LINES = 1000  # lines of a file that are inspected
TABLE_SHARE = 0.9  # of lines with as many cells
TABLES = (".csv", ".tsv", *JSON_LINES, *PARQUET)


def reject_table(path) -> None:
    """Rejects a table, by its name or its cells, where each line is a text."""
    path = pathlib.Path(path)
    if path.suffix.lower() in TABLES or _has_columns(path):
        raise UsageError(
            f"{path} is a table, whose headings and other columns would be "
            "read as text. Name its columns of text."
        )


def _has_columns(path):
    """Whether most of the first lines have as many cells, below headings."""
    first = itertools.islice(numbered_lines(path), FIRST_LINES)
    # Tabs before a text indent it, and tabs after a text are trailing spaces.
    lines = [line.strip() for _, line in first if has_text(line)]
    for separator in "\t,;":
        rows = [*csv.reader(lines, delimiter=separator)]
        counts = collections.Counter(map(len, rows))
        (count, lines_with_it), *_ = *counts.most_common(1), (1, 0)
        if count > 1 < len(rows) and lines_with_it >= TABLE_SHARE * len(rows):
            names = [cell.replace("-", "_") for cell in rows[0]]
            # Sentences may have as many commas, but no headings.
            if separator == "\t" or all(map(str.isidentifier, names)):
                return True
    return False


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files of text without labels.

    Args:
        files: tuple of strings or paths. UTF-8 files with one text per line, or
            tables as `open_table` reads them. Empty lines are skipped.
        column: string or `None`. The heading of the column with the texts, for
            tables; `None` if each line is a text. Defaults to `None`.
        one_document: bool. Whether a file is one document, as in WikiText.
            Defaults to `False`: each line is a text.
    """

    files: tuple[str, ...]
    column: str | None = None
    one_document: bool = False

    def check(self) -> None:
        """Opens every file, so that a missing file or column is found early.

        Raises:
            UsageError: for a missing column, and for a table without a column.
        """
        for file in self.files:
            next(self._texts_of(pathlib.Path(file)), None)

    def texts(self) -> Iterator[str]:
        """Yields the texts in order, holding one line at a time.

        With `one_document`, yields a file's lines with their line ends, and an
        empty string after the last.

        Raises:
            UsageError: for a missing column and a malformed row of a table, and
                for a table without a column.
        """
        for file in self.files:
            for text in self._texts_of(pathlib.Path(file)):
                yield f"{text}\n" if self.one_document else text
            if self.one_document:
                yield ""

    def lines(self) -> Iterator[str]:
        """Yields the texts as `texts` does, and empty ones too."""
        for file in self.files:
            yield from self._texts_of(pathlib.Path(file), keeps_empty=True)

    def num_words(self) -> int:
        """Counts words, for the perplexity per word.

        Words are separated by white space, and the end of every text counts as
        a word. With `one_document`, every line counts as a text, also an empty
        one: 82,430 words in the test split of Penn Treebank, 245,569 in that of
        WikiText-2.
        """
        # The empty string after the last line of a document is not a line.
        return sum(1 + len(text.split()) for text in self.texts() if text)

    def _texts_of(self, path, keeps_empty=False):
        if self.column is None:
            reject_table(path)
            for _, line in numbered_lines(path):
                text = line.strip()
                if self.one_document or keeps_empty or has_text(text):
                    yield text
            return
        columns = (self.column,)
        for _, (text,) in open_table(path, columns).columns(columns):
            if keeps_empty or has_text(text):
                yield text


# For both: tokens to join with the word before, or with the word after.
_BEFORE = re.compile(r" ([.,;:?!%)\]])")
_AFTER = re.compile(r"([(\[$£€]) ")
_ENDINGS = re.compile(r" ('(?:s|m|d|ll|re|ve)|n't)\b", re.IGNORECASE)


def detokenize_wikitext(line: str) -> str:
    """Returns a line of WikiText as running text."""
    for sign in "-,.":
        line = line.replace(f" @{sign}@ ", sign)
    return _with_its_end(line, lambda text: _join(_quotes(text)))


def detokenize_ptb(line: str) -> str:
    """Returns a line of the Penn Treebank as running text."""
    return _with_its_end(line, _join)


DETOKENIZERS: dict[str, Callable[[str], str]] = {
    "wikitext": detokenize_wikitext,
    "ptb": detokenize_ptb,
}


def _with_its_end(line, change):
    """Changes a line, except its line break."""
    text = line.removesuffix("\n")
    return change(text) + line[len(text) :]


def _join(line):
    line = _AFTER.sub(r"\1", _BEFORE.sub(r"\1", line))
    return _ENDINGS.sub(r"\1", line)


def _quotes(line):
    """Joins quotation marks with the text between them."""
    parts = re.split(r'( ?" ?)', line)
    marks = [index for index, part in enumerate(parts) if part.strip() == '"']
    for number, index in enumerate(marks[: len(marks) // 2 * 2]):
        opens = number % 2 == 0
        parts[index] = ' "' if opens else '" '
    return "".join(parts).strip()


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Pairs of source and target.

    Args:
        files: tuple of strings or paths. Two UTF-8 files with one text per
            line, first the sources and then the targets in the same order; or
            with `columns`, one or more tab-separated tables with a header.
        columns: tuple of two strings, or `None`. The columns with source and
            target. Defaults to `None`.
    """

    files: tuple[str, ...]
    columns: tuple[str, str] | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields source and target, holding one line of each file at a time.

        Raises:
            UsageError: with file and line for an empty side and a malformed
                row; for files of different numbers of lines; for a missing
                column, and for a table without columns.
        """
        if self.columns is None:
            yield from self._lines_of_both()
        else:
            for file in self.files:
                yield from self._rows(pathlib.Path(file))

    def check(self) -> int:
        """Reads all of it, and returns how many pairs there are.

        Raises:
            UsageError: as `pairs` does.
        """
        return sum(1 for _ in self.pairs())

    def _lines_of_both(self):
        source, target = map(pathlib.Path, self.files)
        for path in (source, target):
            reject_table(path)
        lines = [
            without_blank_end(numbered_lines(path)) for path in (source, target)
        ]
        for first, second in itertools.zip_longest(*lines):
            if first is None or second is None:
                raise _different_lengths(source, target)
            place = f"line {first[0]}"
            yield (
                _not_empty(source, place, first[1]),
                _not_empty(target, place, second[1]),
            )

    def _rows(self, path):
        table = open_table(path, self.columns)
        for place, (source, target) in table.columns(self.columns):
            yield (
                _not_empty(path, place, source),
                _not_empty(path, place, target),
            )


@dataclasses.dataclass(frozen=True)
class ParallelLines:
    """Texts in several languages, one file for each, line by line.

    Args:
        files: tuple of strings or paths. UTF-8 files with one text per line,
            whose lines belong together. A text may be empty.
    """

    files: tuple[str, ...]

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each line, without spaces around them.

        Empty lines at the end of a file do not count.

        Raises:
            UsageError: for files of different numbers of lines, and for a
                table.
        """
        paths = list(map(pathlib.Path, self.files))
        for path in paths:
            reject_table(path)
        has_ended = False
        for lines in itertools.zip_longest(*map(numbered_lines, paths)):
            texts = tuple(line[1].strip() if line else "" for line in lines)
            has_ended = has_ended or None in lines
            if has_ended and any(map(has_text, texts)):
                raise _different_lengths(*paths)
            if not has_ended:
                yield texts

    def check(self) -> int:
        """Reads all files, and returns how many lines each has.

        Raises:
            UsageError: as `lines` does.
        """
        return sum(1 for _ in self.lines())


def _not_empty(path, place, text):
    text = text.strip()
    if not has_text(text):
        raise UsageError(
            f"{path}, {place} has no text. Remove it from both sides."
        )
    return text


def _different_lengths(*paths):
    return UsageError(
        f"{', '.join(map(str, paths))} have different numbers of lines, but "
        "their lines belong together."
    )
