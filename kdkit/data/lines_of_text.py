"""Files of one text a line, and tables in their place."""

import collections
import itertools
import pathlib
from collections.abc import Iterable

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import has_text
from kdkit.reading import numbered_lines

FIRST_LINES = 1000  # of a file that are looked at
OF_A_TABLE = 0.9  # the share of lines with a tab; plain text has few


def refuse_table(path, lines: Iterable[str], advice: str) -> None:
    """Refuses a table where every line is taken for a text.

    Its labels, and whatever else stands in its columns, would be read too. Of
    two or more lines, nearly all have as many tabs.

    Args:
        path: path of the file, for the error.
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
    if len(lines) < 2 or with_tab < OF_A_TABLE * len(lines):
        return
    raise UsageError(
        f"{path}: expected one text a line. Received: a table, of which "
        f"{with_tab} of the first {len(lines)} lines have as many tabs; its "
        f"first line is {shortened(lines[0])}. {advice}, or put blanks in the "
        "place of the tabs if each line is a text."
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
