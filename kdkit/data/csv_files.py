"""How to recognise what a CSV writer wrote: kdkit's tables have no quoting."""

import collections
import csv
import pathlib
from collections.abc import Iterable

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
OF_A_TABLE = 0.9  # the share of lines with as many columns


def is_csv_quoted(cell: str) -> bool:
    '''Whether a CSV writer quoted a cell because of the quotes within.

    Such a cell begins and ends with a quote, and all quotes between them are
    doubled. Quoted speech in plain text has single quotes inside.

    Args:
        cell: string.

    >>> is_csv_quoted('"he said ""no"""'), is_csv_quoted('"no ," he said "')
    (True, False)
    '''
    inside = cell[1:-1]
    return (
        len(cell) > 3
        and cell[0] == cell[-1] == '"'
        and '""' in inside
        and '"' not in inside.replace('""', "")
    )


def breaks_in_quotes(cells: Iterable[str]) -> bool:
    """Whether a quoted cell has a tab or a line break within.

    Split at tabs and line breaks, it leaves a cell with the opening quote and
    without the closing one, or the other way round.

    Args:
        cells: iterable of strings, a line that was split at tabs.
    """
    return any(
        cell.count('"') % 2 and (cell[0] == '"' or cell[-1] == '"')
        for cell in map(str.strip, cells)
    )


def csv_separator(lines: Iterable[str]) -> str | None:
    """Returns what separates the columns of a CSV file, `None` for plain text.

    Nearly all lines have the same number of columns, two or more. In addition
    the first line has a single word in each column, as headings are, or
    another line has a cell that a CSV writer quoted.

    Args:
        lines: iterable of strings: the first lines of a file.

    >>> csv_separator(["text,label", '"Fine, thanks",1', "Dull,0"])
    ','
    >>> csv_separator(["Fine, thanks", "Dull, they said"]) is None
    True
    """
    lines = list(lines)
    for separator in (",", ";"):
        rows = [_cells(line, separator) for line in lines]
        counts = collections.Counter(map(len, rows))
        del counts[0], counts[1]
        if len(rows) < 2 or max(counts.values(), default=0) < (
            OF_A_TABLE * len(rows)
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
    """Whether cells may be headings: different single words, no numbers.

    Args:
        cells: list of strings.

    >>> is_header(["review_text", "label"]), is_header(["A fine film", "1"])
    (True, False)
    """
    return len(set(cells)) == len(cells) and all(
        cell.replace("-", "_").isidentifier() for cell in cells
    )


def separator_of_header(
    heading: str, wanted: Iterable[str]
) -> tuple[str, bool] | None:
    """Returns how a CSV writer separated and quoted wanted headings.

    Args:
        heading: string. The first line of a table.
        wanted: iterable of strings. Headings that are not there between tabs.

    Returns:
        The separator and whether headings are quoted, or `None` where no
        separator gives the wanted headings.
    """
    wanted = set(wanted)
    for separator in SEPARATORS:
        cells = {cell.strip() for cell in _cells(heading, separator)}
        if wanted <= cells:
            return separator, '"' in heading
    return None


def how_to_convert(name: str, separator: str = ",") -> str:
    """Returns how to write a CSV file as a table that kdkit reads.

    Args:
        name: string. Name of the file.
        separator: string. What separates its columns. Defaults to `","`.
    """
    given = "" if separator == "," else f", sep={separator!r}"
    stem = pathlib.PurePath(name).stem
    plain = f"{stem}_plain.tsv" if name == f"{stem}.tsv" else f"{stem}.tsv"
    return (
        "Write it as a tab-separated table without quoting: "
        f"pandas.read_csv({name!r}{given}).to_csv({plain!r}, sep='\\t', "
        "index=False, quoting=csv.QUOTE_NONE), with spaces in the place of "
        "tabs and line breaks in texts"
    )


def _cells(line, separator):
    """The cells of a line as `csv` reads it; none where it cannot."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []
