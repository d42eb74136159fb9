"""What is wrong with the files of a task, told at once."""

from collections.abc import Iterable

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import numbered_lines

MAX_PROBLEMS = 10  # of one file that are spelled out; the rest are counted
MAX_SIGNS = 600  # of each


def raise_problems(path, problems: list[str]) -> None:
    """Raises a `UsageError` with what is wrong in the lines of a file.

    Args:
        path: path of the file.
        problems: list of strings, each beginning with its line.
    """
    if not problems:
        return
    lines = [
        f"{path}, {problem[:MAX_SIGNS]}{'...' * (len(problem) > MAX_SIGNS)}"
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more lines.")
    lines.append("Mend or remove these lines, or fetch the file again.")
    raise UsageError("\n".join(lines))


def find_columns(path, headings: list[str], wanted) -> tuple[int, ...]:
    """Returns where the wanted headings stand in a table's first line.

    Args:
        path: path of the file, for the error.
        headings: list of strings.
        wanted: sequence of strings.

    Raises:
        UsageError: with all that are missing.
    """
    missing = [heading for heading in wanted if heading not in headings]
    if missing:
        raise UsageError(
            f"{path}, line 1: expected a header with "
            f"{', '.join(map(repr, wanted))}, separated by tabs. Missing: "
            f"{', '.join(map(repr, missing))}. Received: "
            f"{shortened(headings)}."
        )
    return tuple(headings.index(heading) for heading in wanted)


def read_lines(path, what: str) -> list[str]:
    """Returns the lines of a UTF-8 file without their ends.

    Args:
        path: `pathlib.Path`.
        what: string. What the file should hold, for the error.

    Raises:
        UsageError: if the file is missing, empty or not UTF-8, or a line has
            more than 16 MiB.
    """
    lines = [line for _, line in numbered_lines(path, what)]
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
    missing = list(missing)
    if not missing:
        return
    lines = [
        "Missing data file:" if len(missing) == 1 else "Missing data files:",
        *(f"  {path}" for path in missing),
        "The data directory must be the root of the official layout:",
        *(f"  {path}" for path in expected),
        f"Received: data_dir={str(data_dir)!r}{hint}",
    ]
    raise UsageError("\n".join(lines))
