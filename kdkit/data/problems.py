"""What is wrong with the files of a task, told at once."""

from collections.abc import Iterable

from kdkit.errors import UsageError

MAX_PROBLEMS = 10  # of one file that are spelled out; the rest are counted


def raise_problems(path, problems: list[str]) -> None:
    """Raises a `UsageError` with what is wrong in the lines of a file.

    Args:
        path: path of the file.
        problems: list of strings, each beginning with its line.
    """
    if not problems:
        return
    lines = [f"{path}, {problem}" for problem in problems[:MAX_PROBLEMS]]
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
            f"{', '.join(map(repr, wanted))}. Missing: "
            f"{', '.join(map(repr, missing))}. Received: {headings}."
        )
    return tuple(headings.index(heading) for heading in wanted)


def read_lines(path, what: str) -> list[str]:
    """Returns the lines of a UTF-8 file without their ends.

    Args:
        path: `pathlib.Path`.
        what: string. What the file should hold, for the error.

    Raises:
        UsageError: if the file is missing, empty or not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected {what}."
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise UsageError(
            f"{path}, line {number}: expected UTF-8. Received: byte "
            f"0x{byte:02x}. Convert the file, for example with iconv."
        ) from error
    if not text.strip():
        raise UsageError(f"{path} is empty. Expected {what}.")
    # not splitlines: it also breaks at U+0085 and U+2028 within sentences
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


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
