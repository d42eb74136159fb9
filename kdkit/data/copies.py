"""Files of augmented copies, line by line."""

import contextlib

from kdkit.data.problems import find_columns
from kdkit.data.problems import raise_problems
from kdkit.errors import UsageError

SOURCE_ROW = "source_row"


def check_augmented(file, num_texts: int) -> None:
    """Checks the header of a file of copies.

    Raises:
        UsageError: (a `ValueError`) if it is missing or has other columns.
    """
    with _opened(file) as lines:
        _find_places(file, next(lines, ""), num_texts)


def read_copies(file, num_texts: int, num_rows: int):
    """Yields the source row and the texts of every copy in a file.

    Args:
        file: path, as `store_augmented` takes it.
        num_texts: int. 1 for sentences, 2 for pairs.
        num_rows: int. Rows that the copies may be of.

    Raises:
        UsageError: with file and line number for the first malformed rows.
    """
    with _opened(file) as lines:
        headings = next(lines, "")
        source, first = _find_places(file, headings, num_texts)
        count = headings.count("\t") + 1
        problems = []
        for number, line in enumerate(lines, start=2):
            cells = line.removesuffix("\n").split("\t")
            if len(cells) != count:
                problems.append(
                    f"line {number}: expected {count} columns separated by "
                    f"tabs. Received: {len(cells)} columns"
                )
            elif not cells[source].isdecimal():
                problems.append(
                    f"line {number}: expected the number of a row as "
                    f"{SOURCE_ROW}. Received: {cells[source]!r}"
                )
            elif int(cells[source]) >= num_rows:
                problems.append(
                    f"line {number}: expected a {SOURCE_ROW} below "
                    f"{num_rows}, the rows of the task. Received: "
                    f"{cells[source]}"
                )
            elif not problems:
                yield int(cells[source]), tuple(cells[first:])
        raise_problems(file, problems)


def _find_places(file, line, num_texts):
    """Where the source row and the first text stand."""
    headings = line.removesuffix("\n").split("\t")
    (source,) = find_columns(file, headings, (SOURCE_ROW,))
    first = len(headings) - num_texts
    if source >= first:
        raise UsageError(
            f"{file}, line 1: expected {SOURCE_ROW} before {num_texts} "
            f"column(s) of text. Received: {headings}. Make the file with "
            "kdkit augment for the same task."
        )
    return source, first


@contextlib.contextmanager
def _opened(file):
    try:
        with open(file, encoding="utf-8", newline="\n") as lines:
            yield lines
    except OSError as error:
        raise UsageError(
            f"Cannot read {file}: {error.strerror}. Expected a file of kdkit "
            "augment."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: expected UTF-8. Received: {error.reason}. Make the file "
            "anew with kdkit augment."
        ) from error
