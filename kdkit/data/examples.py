"""Examples of a task, parsers of labels, and errors for data files."""

import collections
import csv
import dataclasses
import math
import pathlib
import re
from collections.abc import Iterable, Iterator

import numpy as np

from kdkit.errors import UsageError, shortened
from kdkit.io.reading import numbered_lines


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Texts with their labels.

    Args:
        texts: tuple of 1 or 2 lists of strings of the same length: the
            sentences, or the first and the second sentences of the pairs.
        labels: `int32` array of class numbers, `float32` array of scores, or
            `None` without labels. Shape `(num_rows,)`.

    >>> examples = Examples((["a fine film", "a dull film"],), np.array([1, 0]))
    >>> len(examples)
    2
    >>> examples.take([1]).texts
    (['a dull film'],)
    """

    texts: tuple[list[str], ...]
    labels: np.ndarray | None = None

    def __post_init__(self):
        if len(self.texts) not in (1, 2):
            raise UsageError(
                "Examples have 1 or 2 columns of text. "
                f"Received: {len(self.texts)} columns."
            )
        num_rows = {len(column) for column in self.texts}
        if self.labels is not None:
            num_rows.add(len(self.labels))
        if len(num_rows) != 1:
            raise UsageError(
                "The columns of text and the labels must have the same number "
                f"of rows. Received: {sorted(num_rows)} rows."
            )

    def __len__(self):
        return len(self.texts[0])

    def take(self, rows) -> "Examples":
        """Returns the rows with the given numbers, in the given order."""
        texts = tuple([column[row] for row in rows] for column in self.texts)
        labels = None if self.labels is None else self.labels[np.asarray(rows)]
        return Examples(texts, labels)


# Characters between a label and its count, its number or its name.
BETWEEN = re.compile(r"[\s,;:=]+")
LARGEST = float(np.finfo("float32").max)


def label_parser(words, separator=None):
    """Returns a function from the text of a label to its number."""
    if words is None:
        return _parse_score
    numbers = {label_value(word): number for number, word in enumerate(words)}
    numbers |= {word: number for number, word in enumerate(words)}

    def parse_word(text):
        word = text.strip()
        try:
            return numbers[word if word in numbers else label_value(word)]
        except KeyError:
            raise UsageError(
                f"unknown label. Expected one of {shortened(words)}. "
                f"Received: {shortened(text)}"
            ) from None

    def parse_words(text):
        present = np.zeros(len(words), "int32")
        if text.strip():
            for word in text.split(separator):
                present[parse_word(word)] = 1
        return present

    return parse_word if separator is None else parse_words


def label_value(word: str) -> str | float:
    """Returns the number in a label, or its word, to compare two spellings."""
    try:
        value = float(word)
    except ValueError:
        return word
    is_number = math.isfinite(value) and "_" not in word  # as in Python's 1_0
    return value if is_number else word


def read_label_words(path, least: int = 1) -> tuple[str, ...]:
    """Reads the words of a label set, one per line."""
    path = pathlib.Path(path)
    lines = [
        (number, line.strip())
        for number, line in numbered_lines(path)
        if line.strip()
    ]
    for number, line in lines:
        if "\t" in line:
            raise UsageError(
                f"{path}, line {number}: expected a label alone. Received: "
                f"{shortened(line)}, {line.count(chr(9)) + 1} columns. Remove "
                "counts, numbers and other columns next to the labels."
            )
    words = tuple(line for _, line in lines)
    counts = collections.Counter(words)
    twice = sorted(word for word, count in counts.items() if count > 1)
    if not words or twice:
        raise UsageError(
            f"{path}: expected one label per line, each once. Received: "
            f"{f'{shortened(twice)} more than once' if twice else 'none'}."
        )
    if len(words) < least:
        raise UsageError(
            f"{path}: expected at least {least} labels, one per line, in the "
            f"order of the class numbers. Received: {shortened(words[0])} "
            "alone. Write each label of the table on a separate line."
        )
    return words


def fix_of_label_set(text: str, words, separator=None) -> str | None:
    """Returns the fix for a label set with more than a label on a line."""
    labels = {label.strip() for label in text.split(separator or "\n")} - {""}
    for word in words or ():
        parts = {part.strip("\"'") for part in BETWEEN.split(word)}
        if word not in labels and (found := sorted(labels & parts)):
            return (
                f"The label set has the line {shortened(word)}. If its label "
                f"is {shortened(found[0])}, remove the rest of that line: a "
                "label set has only a label on each line."
            )
    return None


def _parse_score(text):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not abs(score) <= LARGEST:
        raise UsageError(
            f"expected a 32-bit number as label. Received: {shortened(text)}"
        )
    return score


MAX_PROBLEMS = 10  # reported for one file; the rest are counted
MAX_CHARACTERS = 600  # of each problem
MOST_BLANK = 1000  # blank lines that are skipped at the end of a file


def raise_problems(
    path,
    problems: list[str],
    fix: str = "Fix or remove these lines, or download the file again.",
) -> None:
    """Raises a `UsageError` with the problems in a file's lines."""
    if not problems:
        return
    lines = [
        f"{path}, {problem[:MAX_CHARACTERS]}"
        f"{'...' * (len(problem) > MAX_CHARACTERS)}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more lines.")
    lines.append(fix)
    raise UsageError("\n".join(lines))


def find_columns(path, headings: list[str], wanted) -> tuple[int, ...]:
    """Returns the columns of the wanted headings in a table's first line."""
    missing = [heading for heading in wanted if heading not in headings]
    if missing:
        raise UsageError(
            f"{path}, line 1: expected a header with "
            f"{', '.join(map(repr, wanted))}, separated by tabs. Missing: "
            f"{', '.join(map(repr, missing))}. Received: "
            f"{shortened(headings)}.{_as_csv(headings, wanted)}"
        )
    return tuple(headings.index(heading) for heading in wanted)


def without_blank_end(
    lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, str]]:
    """Skips the blank lines at the end of a file, at most 1,000."""
    blank = []
    for number, line in lines:
        blank.append((number, line))
        if line.strip() or len(blank) > MOST_BLANK:
            yield from blank
            blank.clear()


def read_lines(path, what: str) -> list[str]:
    """Returns the lines of a UTF-8 file without their line ends."""
    lines = [line for _, line in without_blank_end(numbered_lines(path))]
    if not any(line.strip() for line in lines):
        raise UsageError(f"{path} is empty. Expected {what}.")
    return lines


def raise_missing(
    missing: Iterable, expected: Iterable, data_dir, hint: str = ""
) -> None:
    """Raises a `UsageError` with all missing files and their layout."""
    missing, expected = list(missing), list(expected)
    if not missing:
        return
    names = {pathlib.Path(path).name for path in expected}
    lines = [
        "Missing data file:" if len(missing) == 1 else "Missing data files:",
        *(f"  {path}{_in_its_place(path, names)}" for path in missing),
        "The data directory must be the root of the official layout:",
        *(f"  {path}" for path in expected),
        f"Received: data_dir={str(data_dir)!r}{hint}",
    ]
    raise UsageError("\n".join(lines))


def _in_its_place(path, names):
    """The files with the same name in another format, and the fix."""
    path = pathlib.Path(path)
    others = sorted(
        other.name
        for other in path.parent.glob("*")
        if other.name.split(".")[0].lower() == path.stem.lower()
        and other.name not in names
        and other.is_file()
    )
    return f". Next to it is {', '.join(others)}" if others else ""


def _as_csv(headings, wanted):
    """How the columns of a CSV writer's header are separated, and the fix."""
    found = separator_of_header("\t".join(headings), wanted)
    if found is None:
        return ""
    separator, is_quoted = found
    quoted = " and quoted" if is_quoted else ""
    return (
        f" Its columns are separated by {SEPARATORS[separator]}{quoted}, as a "
        "CSV writer does. Pass the file with --train, --text-column and "
        "--label-column, which read CSV."
    )


SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
TABLE_SHARE = 0.9  # least share of lines with the same number of columns


def is_csv_quoted(cell: str) -> bool:
    """Returns whether a CSV writer quoted a cell because it contains quotes."""
    inside = cell[1:-1]
    return (
        len(cell) > 3
        and cell[0] == cell[-1] == '"'
        and '""' in inside
        and '"' not in inside.replace('""', "")
    )


def breaks_in_quotes(cells: Iterable[str]) -> bool:
    """Returns whether a quoted cell contains a tab or a line break."""
    return any(
        cell.count('"') % 2 and (cell[0] == '"' or cell[-1] == '"')
        for cell in map(str.strip, cells)
    )


def csv_separator(lines: Iterable[str]) -> str | None:
    """Returns the separator of a CSV file's columns, `None` for plain text."""
    lines = list(lines)
    for separator in (",", ";"):
        rows = [_cells(line, separator) for line in lines]
        counts = collections.Counter(map(len, rows))
        del counts[0], counts[1]
        if len(rows) < 2 or max(counts.values(), default=0) < (
            TABLE_SHARE * len(rows)
        ):
            continue
        is_quoted = any(
            separator in cell or ('"' in cell and '""' in line)
            for line, row in zip(lines, rows, strict=True)
            for cell in row
            if len(row) > 1
        )
        if is_quoted or is_header(rows[0]):
            return separator
    return None


def is_header(cells: list[str]) -> bool:
    """Returns whether cells may be headings: different words, no numbers."""
    return len(set(cells)) == len(cells) and all(
        cell.replace("-", "_").isidentifier() for cell in cells
    )


def separator_of_header(
    heading: str, wanted: Iterable[str]
) -> tuple[str, bool] | None:
    """Returns the separator and the quoting in a CSV file's header."""
    wanted = set(wanted)
    for separator in SEPARATORS:
        cells = {cell.strip() for cell in _cells(heading, separator)}
        if wanted <= cells:
            return separator, '"' in heading
    return None


def _cells(line, separator):
    """The cells of a line as read by `csv`; none if it cannot read the line."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []
