"""Files of one text a line, and tables in their place."""

import collections
import itertools
import pathlib
from collections.abc import Iterable

from kdkit.data.csv_files import OF_A_TABLE
from kdkit.data.csv_files import csv_separator
from kdkit.data.csv_files import how_to_convert
from kdkit.data.csv_files import is_header
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import has_text
from kdkit.reading import numbered_lines

FIRST_LINES = 1000  # of a file that are looked at


def refuse_table(path, lines: Iterable[str], advice: str) -> None:
    """Refuses a table where every line is taken for a text.

    Its header, labels and other columns would be read as text. A table is a
    file of two or more lines of which nearly all have the same number of tabs;
    a CSV file, by its name or by its lines; and a file that is named `.tsv` and
    begins with a header.

    Args:
        path: path of the file.
        lines: iterable of strings, of which the first 1,000 are looked at.
        advice: string. How a column is named.

    Raises:
        UsageError: for a table.
    """
    lines = [
        line for line in itertools.islice(lines, FIRST_LINES) if has_text(line)
    ]
    # Those before a text indent it, those behind it are blanks.
    tabs = collections.Counter(line.strip().count("\t") for line in lines)
    del tabs[0]
    with_tab = max(tabs.values(), default=0)
    if len(lines) > 1 and with_tab >= OF_A_TABLE * len(lines):
        raise UsageError(
            f"{path}: expected one text a line. Received: a table, of which "
            f"{with_tab} of the first {len(lines)} lines have as many tabs; "
            f"its first line is {shortened(lines[0])}. {advice}, or put blanks "
            "in the place of the tabs if each line is a text."
        )
    _refuse_csv(pathlib.Path(path), lines, advice)


def _refuse_csv(path, lines, advice):
    """Refuses CSV files, and tables of one column that are named as one."""
    suffix = path.suffix.lower()
    separator = csv_separator(lines)
    if lines and (separator or suffix == ".csv"):
        raise UsageError(
            f"{path}: expected one text a line. Received: a CSV file, whose "
            "header, quotes and other columns would be read as text; its first "
            f"line is {shortened(lines[0])}. "
            f"{how_to_convert(path.name, separator or ',')}. {advice}. If each "
            "line is a text, name the file .txt."
        )
    if suffix == ".tsv" and len(lines) > 1 and is_header([lines[0].strip()]):
        raise UsageError(
            f"{path}: expected one text a line. Received: a table of one "
            f"column, whose header {shortened(lines[0])} would be read as "
            f"text. {advice}. If each line is a text, name the file .txt."
        )


def refuse_table_file(path, advice: str) -> None:
    """Refuses a file that is a table, as `refuse_table` does.

    Args:
        path: path of the file. What is none, such as a pipe, is passed over.
        advice: string. How a column is named.

    Raises:
        UsageError: for a table, and for a file that cannot be read.
    """
    if pathlib.Path(path).is_file():
        refuse_table(path, (line for _, line in numbered_lines(path)), advice)
