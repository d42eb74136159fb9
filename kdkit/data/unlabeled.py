"""Texts without labels, for the teacher to label."""

import pathlib
from collections.abc import Iterable

from kdkit.data.examples import Examples
from kdkit.data.lines_of_text import refuse_table
from kdkit.data.problems import find_columns
from kdkit.data.problems import raise_problems
from kdkit.data.problems import read_lines
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes

NAME_COLUMNS = (
    "Name its columns of text with --unlabeled-columns (Python: columns=)"
)


def read_unlabeled(
    files: Iterable, columns: tuple[str, ...], num_texts: int
) -> Examples:
    """Reads rows of text from files.

    Args:
        files: paths of UTF-8 files. Without `columns` every line is a text;
            empty lines are passed over. With them the files are tab separated
            and have a header.
        columns: tuple of strings. The headings of the columns that hold the
            texts, one for sentences, two for pairs; or empty.
        num_texts: int. 1 for sentences, 2 for pairs.

    Returns:
        `Examples` without labels.

    Raises:
        UsageError: (a `ValueError`) for wrong columns, for files that are
            missing, empty or not UTF-8, for tables without `columns`, and with
            file and line number for malformed rows.
    """
    if len(columns) != num_texts and (columns or num_texts == 2):
        raise UsageError(
            f"A task on {'pairs' if num_texts == 2 else 'sentences'} takes "
            f"{num_texts} column(s) of unlabelled text. Received: "
            f"{list(columns) or 'none, so that every line is one text'}."
        )
    texts = tuple([] for _ in range(num_texts))
    with all_mistakes() as check:
        for file in map(pathlib.Path, files):
            with check():
                for row in _rows(file, columns):
                    for column, text in zip(texts, row, strict=True):
                        column.append(text)
    return Examples(texts)


def without_texts_of(
    examples: Examples, others: Iterable[Examples]
) -> Examples:
    """Leaves out the rows whose texts stand in other examples.

    Capitals and blanks make no difference.

    >>> kept = without_texts_of(
    ...     Examples((["a fine film", "a dull film"],)),
    ...     [Examples((["A  fine film"],))],
    ... )
    >>> kept.texts
    (['a dull film'],)
    """
    known = normalized_rows(others)
    return examples.take(
        [
            number
            for number, row in enumerate(zip(*examples.texts, strict=True))
            if normalized(row) not in known
        ]
    )


def normalized_rows(several: Iterable[Examples]) -> set[tuple[str, ...]]:
    """Returns all rows of some examples as `normalized` has them."""
    return {
        normalized(row)
        for examples in several
        for row in zip(*examples.texts, strict=True)
    }


def normalized(row: Iterable[str]) -> tuple[str, ...]:
    """Returns the texts in small letters and with single blanks.

    >>> normalized(("A  fine film",))
    ('a fine film',)
    """
    return tuple(" ".join(text.lower().split()) for text in row)


def _rows(path, columns):
    """Yields the texts of every row of a file."""
    lines = read_lines(path, "rows of text")
    if not columns:
        refuse_table(path, lines, NAME_COLUMNS)
        yield from ((line.strip(),) for line in lines if line.strip())
        return
    lines = enumerate(lines, start=1)
    headings = next(lines)[1].split("\t")
    places = find_columns(path, headings, columns)
    problems = []
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(headings):
            problems.append(
                f"line {number}: expected {len(headings)} columns separated "
                f"by tabs. Received: {len(cells)} columns"
            )
            continue
        yield tuple(cells[place].strip() for place in places)
    raise_problems(path, problems)
