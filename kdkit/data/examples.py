"""Examples of a task, and how labels and lines are read."""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import numbered_lines


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Texts with their labels.

    Args:
        texts: tuple of 1 or 2 lists of strings of the same length: the
            sentences, or the first and the second sentences of the pairs.
        labels: `int32` array of class numbers, `float32` array of scores, or
            `None` without labels. Shape `(num_rows,)`.

    Raises:
        UsageError: (a `ValueError`) for columns of different lengths, or three.

    >>> examples = Examples((["a fine film", "a dull film"],), np.array([1, 0]))
    >>> len(examples)
    2
    >>> examples.take([1]).texts
    (['a dull film'],)
    """

    texts: tuple[list[str], ...]
    labels: np.ndarray | None = None

    def __post_init__(self):
        columns = [*self.texts]
        if self.labels is not None:
            columns.append(self.labels)
        counts = [len(column) for column in columns]
        if len(self.texts) > 2 or len(set(counts)) != 1:
            raise UsageError(
                "Examples need 1 or 2 columns of text, and as many labels. "
                f"Received: {counts} rows in the columns."
            )

    def __len__(self):
        return len(self.texts[0])

    def take(self, rows) -> "Examples":
        """Returns the rows with the given numbers, in the given order."""
        texts = tuple([column[row] for row in rows] for column in self.texts)
        labels = None if self.labels is None else self.labels[np.asarray(rows)]
        return Examples(texts, labels)


def label_parser(words, separator=None):
    """Returns a function from the text of a label to its number."""
    if words is None:
        return _parse_score
    numbers = {label_value(word): number for number, word in enumerate(words)}
    if len(numbers) < len(words):
        raise UsageError(
            f"Expected each label once. Received: {', '.join(words)}."
        )
    numbers |= {word: number for number, word in enumerate(words)}

    def parse_word(text):
        word = text.strip()
        found = numbers.get(word, numbers.get(label_value(word)))
        if found is None:
            raise unknown("label", word, words)
        return found

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


LARGEST = float(np.finfo("float32").max)


def _parse_score(text):
    score = float(text)
    if not abs(score) <= LARGEST:
        raise UsageError(f"expected a finite 32-bit number. Received: {text}.")
    return score


@contextlib.contextmanager
def at(path, place: str):
    """Puts the file and the place before the error of a row."""
    try:
        yield
    except ValueError as error:  # also UsageError
        raise UsageError(f"{path}, {place}: {error}") from error


def require_width(
    path, number: int, cells: Sequence[str], num_columns: int
) -> None:
    """Requires that a line has as many columns as the others."""
    if len(cells) != num_columns:
        raise UsageError(
            f"{path}, line {number}: expected {num_columns} columns. "
            f"Received: {len(cells)}."
        )


def column_place(path, headings: Sequence[str], name: str) -> int:
    """Returns the index of a column in a table's header."""
    if name not in headings:
        raise unknown(f"column of {path}", name, headings)
    if headings.count(name) > 1:
        raise UsageError(f"{path} has several columns {name!r}. Rename them.")
    return headings.index(name)


MOST_BLANK = 1000  # blank lines that are skipped at the end of a file


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


def read_lines(path) -> list[str]:
    """Returns the lines of a UTF-8 file without their line ends."""
    return [line for _, line in without_blank_end(numbered_lines(path))]


def is_csv_quoted(cell: str) -> bool:
    """Returns whether a CSV writer quoted a cell because it contains quotes."""
    inside = cell[1:-1]
    return (
        len(cell) > 3
        and cell[0] == cell[-1] == '"'
        and '""' in inside
        and '"' not in inside.replace('""', "")
    )
