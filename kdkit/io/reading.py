"""Reads files of text and JSON, with errors that name the line."""

import json
import pathlib
from collections.abc import Iterator

from kdkit.errors import UsageError
from kdkit.io.files import fits_own_digest, without_digest


def has_text(line: str) -> bool:
    """Whether a line contains visible characters."""
    return any(map(str.isprintable, line.replace(" ", "")))


def numbered_lines(
    path, *, errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Yields the number, from 1, and the text of every line in a UTF-8 file."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                text = line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                raise UsageError(f"{path}, line {number}: {error}") from error
            if "\0" in text:  # UTF-16 in English is valid UTF-8
                raise UsageError(
                    f"{path}, line {number}: expected text in UTF-8, received "
                    "a zero byte."
                )
            yield number, text.removesuffix("\n").removesuffix("\r")


def parse_json(text: str | bytes, kind: type = dict):
    """Parses a JSON text; raises a `UsageError` for another type."""
    try:
        value = json.loads(text)
    except ValueError as error:  # of JSON or UTF-8
        raise UsageError(f"expected JSON: {error}") from error
    if not isinstance(value, kind):
        raise UsageError(
            f"expected a JSON {kind.__name__}, received a "
            f"{type(value).__name__}"
        )
    return value


def json_lines(path) -> Iterator[tuple[int, dict | None]]:
    """Yields the number, from 1, and the JSON object of every line in a log."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, _object(line)


def _object(line):
    try:
        found = parse_json(line)
    except UsageError:
        return None
    return without_digest(found) if fits_own_digest(found) else None


def read_json(path, what: str, kind: type = dict):
    """Returns the JSON object in a file, or the list."""
    content = pathlib.Path(path).read_bytes()
    try:
        return parse_json(content, kind)
    except UsageError as error:
        raise UsageError(
            f"{path} is damaged or not {what}: {error}."
        ) from error
