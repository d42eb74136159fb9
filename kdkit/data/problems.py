"""What is wrong with the files of a task, reported at once."""

import pathlib
from collections.abc import Iterable
from collections.abc import Iterator

from kdkit.data.csv_files import SEPARATORS
from kdkit.data.csv_files import how_to_convert
from kdkit.data.csv_files import separator_of_header
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import numbered_lines

MAX_PROBLEMS = 10  # of one file that are spelled out; the rest are counted
MAX_SIGNS = 600  # of each
MOST_BLANK = 1000  # lines at the end of a file that are passed over


def raise_problems(
    path,
    problems: list[str],
    fix: str = "Fix or remove these lines, or download the file again.",
) -> None:
    """Raises a `UsageError` with what is wrong in the lines of a file.

    Args:
        path: path of the file.
        problems: list of strings, each beginning with its line.
        fix: string. How to fix them. Defaults to what helps with any file.
    """
    if not problems:
        return
    lines = [
        f"{path}, {problem[:MAX_SIGNS]}{'...' * (len(problem) > MAX_SIGNS)}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more lines.")
    lines.append(fix)
    raise UsageError("\n".join(lines))


def find_columns(path, headings: list[str], wanted) -> tuple[int, ...]:
    """Returns where the wanted headings stand in a table's first line.

    Args:
        path: path of the file, for the error.
        headings: list of strings.
        wanted: sequence of strings.

    Raises:
        UsageError: with all that are missing, and for a CSV file.
    """
    refuse_csv_file(path, headings)
    missing = [heading for heading in wanted if heading not in headings]
    if missing:
        raise UsageError(
            f"{path}, line 1: expected a header with "
            f"{', '.join(map(repr, wanted))}, separated by tabs. Missing: "
            f"{', '.join(map(repr, missing))}. Received: "
            f"{shortened(headings)}.{as_csv_has_them(path, headings, wanted)}"
        )
    return tuple(headings.index(heading) for heading in wanted)


def refuse_csv_file(path, headings: list[str]) -> None:
    """Refuses a file by its name, `.csv`, unless tabs separate its columns.

    Args:
        path: path of the file.
        headings: list of strings. The first line, split at tabs.

    Raises:
        UsageError: for a CSV file.
    """
    path = pathlib.Path(path)
    if path.suffix.lower() == ".csv" and len(headings) == 1:
        semicolons = headings[0].count(";") > headings[0].count(",")
        raise UsageError(
            f"{path}: expected a tab-separated table without quoting. "
            f"Received: a CSV file; its first line is {shortened(headings[0])}."
            f" {how_to_convert(path.name, ';' if semicolons else ',')}."
        )


def as_csv_has_them(path, headings: list[str], wanted) -> str:
    """Returns what to do about a header as a CSV writer wrote it.

    Args:
        path: path of the file.
        headings: list of strings. The first line, split at tabs.
        wanted: sequence of strings. What it should have.

    Returns:
        A sentence with a blank before it; empty where another header is wrong.
    """
    found = separator_of_header("\t".join(headings), wanted)
    if found is None:
        return ""
    separator, is_quoted = found
    quoted = " and quoted" if is_quoted else ""
    return (
        f" Its columns are separated by {SEPARATORS[separator]}{quoted}, as a "
        "CSV writer does. "
        f"{how_to_convert(pathlib.Path(path).name, separator)}."
    )


def without_blank_end(
    lines: Iterable[tuple[int, str]],
) -> Iterator[tuple[int, str]]:
    """Passes over the blank lines at the end of a file, 1,000 at most.

    Args:
        lines: iterable of numbers and lines, as `numbered_lines` yields them.

    >>> list(without_blank_end([(1, ""), (2, "a"), (3, ""), (4, " ")]))
    [(1, ''), (2, 'a')]
    """
    blank = []
    for number, line in lines:
        blank.append((number, line))
        if line.strip() or len(blank) > MOST_BLANK:
            yield from blank
            blank.clear()


def read_lines(path, what: str) -> list[str]:
    """Returns the lines of a UTF-8 file without their ends.

    Blank lines at the end of the file are passed over.

    Args:
        path: `pathlib.Path`.
        what: string. What the file should hold, for the error.

    Raises:
        UsageError: if the file is missing, empty or not UTF-8, or a line has
            more than 16 MiB.
    """
    lines = [line for _, line in without_blank_end(numbered_lines(path, what))]
    if not any(line.strip() for line in lines):
        raise UsageError(f"{path} is empty. Expected {what}.")
    return lines


def raise_missing(
    missing: Iterable, expected: Iterable, data_dir, hint: str = ""
) -> None:
    """Raises a `UsageError` with all missing files and where they should be.

    Args:
        missing: iterable of the paths that are not there; nothing is raised
            without any.
        expected: iterable of the layout's paths within the data directory.
        data_dir: path of the data directory.
        hint: string. What the user may have meant.
    """
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
    """The files of the same name in another format, and what to do."""
    path = pathlib.Path(path)
    others = sorted(
        other.name
        for other in path.parent.glob("*")
        if other.name.split(".")[0].lower() == path.stem.lower()
        and other.name not in names
        and other.is_file()
    )
    if not others:
        return ""
    found = f". Next to it is {', '.join(others)}"
    csv_file = f"{path.stem}.csv"
    if path.suffix == ".tsv" and csv_file in others:
        return f"{found}. {how_to_convert(csv_file)}"
    return found
