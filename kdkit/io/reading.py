"""Reads files of text and JSON, with errors that name the line."""

import json
import pathlib
from collections.abc import Callable, Iterator

from kdkit.errors import UsageError, shortened
from kdkit.io.files import fits_own_digest, without_digest

MAX_LINE_BYTES = 1 << 24  # larger than the text of many books
MAX_JSON_BYTES = 1 << 26


def has_text(line: str) -> bool:
    """Whether a line contains visible characters."""
    return any(map(str.isprintable, line.replace(" ", "")))


def numbered_lines(
    path, what: str = "a file of text", errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Yields the number, from 1, and the text of every line in a UTF-8 file."""
    path = pathlib.Path(path)
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                yield number, _decoded(line, path, number, errors)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected {what}."
        ) from error


def _decoded(line, path, number, errors):
    where = f"{path}, line {number}"
    if len(line) > MAX_LINE_BYTES:
        raise UsageError(
            f"{where}: expected at most {MAX_LINE_BYTES} bytes in a line. "
            "Received: a longer one. Break the line, if this is a text file."
        )
    if b"\0" in line:
        raise UsageError(
            f"{where}: expected text in UTF-8. Received: a zero byte, as in "
            "UTF-16 and in binary files. Convert the file, for example with "
            "iconv."
        )
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        text = line.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where}: expected UTF-8. Received: byte "
            f"0x{line[error.start]:02x}, number {error.start + 1} of the line. "
            "Convert the file, for example with iconv."
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


def parse_json(text: str, kind: type = dict):
    """Parses a JSON text."""
    problem = None
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"{error or type(error).__name__}"
    else:
        if not isinstance(value, kind):
            problem = f"a JSON {type(value).__name__}"
    if problem is not None:
        raise UsageError(
            f"expected a JSON {_NAMES.get(kind, kind.__name__)}. Received: "
            f"{shortened(text, 60)} ({problem})"
        )
    return value


_NAMES = {dict: "object", list: "list", object: "text"}


def json_lines(path) -> Iterator[tuple[int, dict | None]]:
    """Yields the number, from 1, and the JSON object of every line in a log."""
    path = pathlib.Path(path)
    try:
        with open(path, "rb") as file:
            number, begun = 0, False
            while line := file.readline(MAX_LINE_BYTES):
                number += not begun
                is_part = begun or len(line) == MAX_LINE_BYTES
                begun = is_part and not line.endswith(b"\n")
                if line.strip() and not (is_part and begun):
                    yield number, None if is_part else _object(line)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected a log of events."
        ) from error


def _object(line):
    try:
        found = parse_json(line.decode())
    except ValueError:  # UsageError and UnicodeDecodeError
        return None
    return without_digest(found) if fits_own_digest(found) else None


def read_json(
    path,
    what: str,
    check: Callable[[dict], str | None] = lambda value: None,
    kind: type = dict,
) -> dict:
    """Returns the JSON object in a file, or the list."""
    path = pathlib.Path(path)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected {what}."
        ) from error
    try:
        value = parse_json(content, kind)
        problem = check(value)
    except UsageError as error:
        problem = str(error)
    if problem is not None:
        raise UsageError(
            f"{path} is damaged or not {what}: {problem}. "
            "Restore it from a copy, or make it again."
        )
    return value
