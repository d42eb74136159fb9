"""Readers of plain text: lines, documents, and pairs of texts."""

import collections
import contextlib
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator

from kdkit.data.examples import (
    TABLE_SHARE,
    csv_separator,
    is_header,
    without_blank_end,
)
from kdkit.data.tables import open_table
from kdkit.errors import UsageError, all_mistakes, shortened
from kdkit.io.reading import has_text, numbered_lines

FIRST_LINES = 1000  # lines of a file that are inspected


def reject_table(path, lines: Iterable[str], advice: str) -> None:
    """Rejects a table where every line is read as a text."""
    lines = [
        line for line in itertools.islice(lines, FIRST_LINES) if has_text(line)
    ]
    # Tabs before a text indent it, and tabs after a text are trailing spaces.
    tabs = collections.Counter(line.strip().count("\t") for line in lines)
    del tabs[0]
    with_tab = max(tabs.values(), default=0)
    if len(lines) > 1 and with_tab >= TABLE_SHARE * len(lines):
        raise UsageError(
            f"{path}: expected one text per line. Received: a table: "
            f"{with_tab} of the first {len(lines)} lines have the same number "
            f"of tabs; its first line is {shortened(lines[0])}. {advice}, or "
            "put spaces instead of the tabs if each line is a text."
        )
    _reject_csv(pathlib.Path(path), lines, advice)


def _reject_csv(path, lines, advice):
    """Rejects CSV files, and tables of one column that are named as tables."""
    suffix = path.suffix.lower()
    separator = csv_separator(lines)
    if lines and (separator or suffix == ".csv"):
        raise UsageError(
            f"{path}: expected one text per line. Received: a CSV file, whose "
            "header, quotes and other columns would be read as text; its first "
            f"line is {shortened(lines[0])}. {advice}. If each line is a text, "
            "name the file .txt."
        )
    if suffix == ".tsv" and len(lines) > 1 and is_header([lines[0].strip()]):
        raise UsageError(
            f"{path}: expected one text per line. Received: a table of one "
            f"column, whose header {shortened(lines[0])} would be read as "
            f"text. {advice}. If each line is a text, name the file .txt."
        )


def reject_table_file(path, advice: str) -> None:
    """Rejects a file that is a table, as `reject_table` does."""
    if pathlib.Path(path).is_file():
        reject_table(path, (line for _, line in numbered_lines(path)), advice)


NAME_A_COLUMN = "Name its column of texts with --column (Python: column=)"


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

    Raises:
        UsageError: if there are no files.
    """

    files: tuple[str, ...]
    column: str | None = None
    one_document: bool = False

    def __post_init__(self):
        if not self.files:
            raise UsageError(
                "A corpus needs at least one file. Received: none."
            )
        if self.one_document and self.column is not None:
            raise UsageError(
                "The rows of a table are separate texts, not the lines of "
                f"one document. Received: column={self.column!r}."
            )

    def check(self) -> None:
        """Requires that the files exist, and that tables have the column.

        Without a column, tables are rejected.

        Raises:
            UsageError: with every missing file and column.
        """
        problems = []
        for file in dict.fromkeys(self.files):
            path = pathlib.Path(file)
            if not path.is_file():
                problems.append(f"No such file of text: {path}.")
                continue
            try:
                if self.column is None:
                    reject_table_file(path, NAME_A_COLUMN)
                else:
                    open_table(path, (self.column,)).require((self.column,))
            except UsageError as error:
                problems.append(str(error))
        if problems:
            raise UsageError("\n".join(problems))

    def texts(self) -> Iterator[str]:
        """Yields the texts in order, holding one line at a time.

        With `one_document`, yields a file's lines with their line ends, and an
        empty string after the last.

        Raises:
            UsageError: with file and line number if a row lacks the column or a
                line is not UTF-8, and for a table without a column.
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
            reject_table_file(path, NAME_A_COLUMN)
            for _, line in numbered_lines(path):
                text = line.strip()
                if self.one_document or keeps_empty or has_text(text):
                    yield text
            return
        for _, (text,) in _columns_of(path, (self.column,)):
            if keeps_empty or has_text(text):
                yield text


def _columns_of(path, columns):
    """Yields the place and the texts of a table's rows."""
    for row in open_table(path, columns).columns(columns):
        if row.problem is not None:
            raise UsageError(
                f"{path}, {row.place}: {row.problem}. Fix or remove the row."
            )
        yield row.place, row.cells


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


NAME_COLUMNS = (
    "Name its columns of source and target with --pair-columns (Python: "
    "columns=)"
)


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Pairs of source and target.

    Args:
        files: tuple of strings or paths. Two UTF-8 files with one text per
            line, first the sources and then the targets in the same order; or
            with `columns`, one or more tab-separated tables with a header.
        columns: tuple of two strings, or `None`. The columns with source and
            target. Defaults to `None`.

    Raises:
        UsageError: if files and columns do not make pairs.
    """

    files: tuple[str, ...]
    columns: tuple[str, str] | None = None

    def __post_init__(self):
        if self.columns is None and len(self.files) != 2:
            raise UsageError(
                "Parallel text needs two files, of sources and of targets, "
                "or tables with a column for each. Received: "
                f"{len(self.files)} files and no columns."
            )
        if self.columns is not None and (
            not self.files or len(set(self.columns)) != 2
        ):
            raise UsageError(
                "Tables of parallel text need a column for the source and "
                f"another for the target. Received: columns={self.columns}, "
                f"{len(self.files)} files."
            )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields source and target, holding one line of each file at a time.

        Raises:
            UsageError: with file and line number for a side that is empty, a
                column that is missing or a line that is not UTF-8; with both
                counts if the files have not as many lines; for a table without
                columns.
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
        with all_mistakes() as check:
            for path in (source, target):
                with check():
                    reject_table_file(path, NAME_COLUMNS)
        with contextlib.ExitStack() as stack:
            lines = [
                without_blank_end(
                    stack.enter_context(
                        contextlib.closing(numbered_lines(path))
                    )
                )
                for path in (source, target)
            ]
            for first, second in itertools.zip_longest(*lines):
                if first is None or second is None:
                    raise _different_counts(source, target)
                place = f"line {first[0]}"
                yield (
                    _not_empty(source, place, first[1]),
                    _not_empty(target, place, second[1]),
                )

    def _rows(self, path):
        for place, (source, target) in _columns_of(path, self.columns):
            yield (
                _not_empty(path, place, source),
                _not_empty(path, place, target),
            )


COLUMN_TO_FILE = "Write each column of texts to a file of its own"


@dataclasses.dataclass(frozen=True)
class ParallelLines:
    """Texts in several languages, one file for each, line by line.

    Args:
        files: tuple of strings or paths. UTF-8 files with one text per line,
            whose lines belong together. A text may be empty.

    Raises:
        UsageError: if there are fewer than two files.
    """

    files: tuple[str, ...]

    def __post_init__(self):
        if len(self.files) < 2:
            raise UsageError(
                "Translations need a file for each language, at least two. "
                f"Received: {', '.join(map(str, self.files)) or 'none'}. Name "
                "the files of all languages."
            )

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yields the texts of each line, without spaces around them.

        Empty lines at the end of a file do not count.

        Raises:
            UsageError: with both counts if the files have not as many lines,
                for a line that is not UTF-8, and for a table.
        """
        paths = list(map(pathlib.Path, self.files))
        with all_mistakes() as check:
            for path in paths:
                with check():
                    reject_table_file(path, COLUMN_TO_FILE)
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(contextlib.closing(numbered_lines(path)))
                for path in paths
            ]
            has_ended = False
            for lines in itertools.zip_longest(*readers):
                texts = tuple(line[1].strip() if line else "" for line in lines)
                has_ended = has_ended or None in lines
                if has_ended and any(map(has_text, texts)):
                    raise _different_counts(*paths)
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
            f"{path}, {place}: expected a text on each side. Received: "
            "an empty one. Remove the pair from both sides."
        )
    return text


def _different_counts(*paths):
    counts = [
        sum(1 for _ in without_blank_end(numbered_lines(path)))
        for path in paths
    ]
    return UsageError(
        "The lines of parallel files belong together. Expected the same "
        f"number in {'both' if len(paths) == 2 else 'all'}. Received: "
        + ", ".join(
            f"{count} in {path}"
            for path, count in zip(paths, counts, strict=True)
        )
        + ". Compare the files, and add the missing lines."
    )
