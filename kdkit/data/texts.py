"""Readers of plain text: lines, documents, and texts that belong together."""

import collections
import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator

from kdkit.data.tables import JSON_LINES, PARQUET, open_table
from kdkit.errors import UsageError
from kdkit.io.reading import has_text, numbered_lines

FIRST_LINES = 1000  # lines of a file that are inspected
TABLE_SHARE = 0.9  # of lines with as many cells
TABLES = (".csv", ".tsv", *JSON_LINES, *PARQUET)


def read_rows(
    path, columns: tuple[str, ...] = (), finds_quotes: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yields the place and the texts of each row of a file.

    Args:
        path: path of the file.
        columns: tuple of strings. The headings of a table's texts. Empty if
            each line is a text.
        finds_quotes: bool, as in `open_table`.

    Raises:
        UsageError: for a table without `columns`, and as `open_table`.
    """
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

    def texts(self) -> Iterator[str]:
        """Yields the texts in order, holding one line at a time.

        With `one_document`, yields a file's lines with their line ends, and an
        empty string after the last.

        Raises:
            UsageError: for a missing column and a malformed row of a table, and
                for a table without a column.
        """
        for file in self.files:
            if self.one_document:
                yield from (f"{line}\n" for line in self._lines(file))
                yield ""
            else:
                yield from filter(has_text, self._lines(file))

    def lines(self) -> Iterator[str]:
        """Yields the texts as `texts` does, and empty ones too."""
        return itertools.chain.from_iterable(map(self._lines, self.files))

    def num_words(self) -> int:
        """Counts words, for the perplexity per word.

        Words are separated by white space, and the end of every text counts as
        a word. With `one_document`, every line counts as a text, also an empty
        one: 82,430 words in the test split of Penn Treebank, 245,569 in that of
        WikiText-2.
        """
        # The empty string after the last line of a document is not a line.
        return sum(1 + len(text.split()) for text in self.texts() if text)

    def _lines(self, file):
        columns = () if self.column is None else (self.column,)
        return (text for _, (text,) in read_rows(file, columns))


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Texts that belong together, such as translations.

    Args:
        files: tuple of strings or paths. UTF-8 files with one text per line,
            whose lines belong together; or with `columns`, one or more tables
            with a header.
        columns: tuple of strings, or `None`. The columns with the texts that
            belong together. Defaults to `None`.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...] | None = None

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts that belong together, which may be empty.

        Holds one line of each file at a time. Empty lines at the end of files
        do not count.

        Raises:
            UsageError: for files of different numbers of lines, a malformed row
                and a missing column, and for a table without columns.
        """
        return (texts for _, texts in self._rows())

    def pairs(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts that belong together.

        Raises:
            UsageError: as `lines`, and with the place for an empty text.
        """
        for place, texts in self._rows():
            if not all(map(has_text, texts)):
                raise UsageError(
                    f"{place} has no text. Remove it from both sides."
                )
            yield texts

    def check(self) -> None:
        """Reads all of it, so that files of different lengths are found."""
        collections.deque(self._rows(), maxlen=0)

    def _rows(self):
        """Yields the place and the texts that belong together."""
        if self.columns:
            for file in self.files:
                for place, texts in read_rows(file, self.columns):
                    yield f"{file}, {place}", tuple(texts)
            return
        names = ", ".join(map(str, self.files))
        lines = [
            (text for _, (text,) in read_rows(file)) for file in self.files
        ]
        blank = []
        for number, texts in enumerate(itertools.zip_longest(*lines), start=1):
            blank.append((f"{names}, line {number}", texts))
            if any(map(has_text, filter(None, texts))):
                if None in texts:
                    raise UsageError(
                        f"{names} have different numbers of lines, but their "
                        "lines belong together."
                    )
                yield from blank
                blank.clear()


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
