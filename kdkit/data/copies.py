"""Files of augmented copies, line by line."""

import itertools

from kdkit.data.problems import find_columns
from kdkit.data.problems import raise_problems
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import numbered_lines

SOURCE_ROW = "source_row"
MAX_DIGITS = 18  # of a number of 64 bits


def check_augmented(file, num_texts: int) -> None:
    """Checks the header of a file of copies.

    Raises:
        UsageError: (a `ValueError`) if it is missing or has other columns.
    """
    _, headings = next(_lines(file), (1, ""))
    _find_places(file, headings, num_texts)


def count_copies(file) -> int:
    """Returns how many lines a file of copies has below its header.

    Args:
        file: path, as `store_augmented` takes it.

    Raises:
        UsageError: (a `ValueError`) if the file cannot be read as text.
    """
    return sum(1 for _ in itertools.islice(_lines(file), 1, None))


def read_copies(file, num_texts: int, num_rows: int):
    """Yields the source row and the texts of every copy in a file.

    Args:
        file: path, as `store_augmented` takes it.
        num_texts: int. 1 for sentences, 2 for pairs.
        num_rows: int. Rows that the copies may be of.

    Raises:
        UsageError: with file and line number for the first malformed rows.
    """
    lines = _lines(file)
    _, headings = next(lines, (1, ""))
    source, first = _find_places(file, headings, num_texts)
    count = headings.count("\t") + 1
    problems = []
    for number, line in lines:
        cells = line.split("\t")
        row = cells[source] if len(cells) == count else ""
        if len(cells) != count:
            problems.append(
                f"line {number}: expected {count} columns separated by "
                f"tabs. Received: {len(cells)} columns"
            )
        elif not row.isdecimal():
            problems.append(
                f"line {number}: expected the number of a row as "
                f"{SOURCE_ROW}. Received: {shortened(row)}"
            )
        elif len(row) > MAX_DIGITS or int(row) >= num_rows:
            problems.append(
                f"line {number}: expected a {SOURCE_ROW} below "
                f"{num_rows}, the rows of the task. Received: "
                f"{shortened(row)}"
            )
        elif not problems:
            yield int(row), tuple(cells[first:])
    raise_problems(file, problems)


def _find_places(file, line, num_texts):
    """Where the source row and the first text stand."""
    headings = line.split("\t")
    (source,) = find_columns(file, headings, (SOURCE_ROW,))
    first = len(headings) - num_texts
    if source >= first:
        raise UsageError(
            f"{file}, line 1: expected {SOURCE_ROW} before {num_texts} "
            f"column(s) of text. Received: {shortened(headings)}. Make the "
            "file with kdkit augment for the same task."
        )
    return source, first


def _lines(file):
    return numbered_lines(file, "a file of kdkit augment")
