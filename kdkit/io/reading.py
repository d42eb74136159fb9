"""Reads untrusted files: in bounded memory, with errors that name the line.

Files may be truncated, in another format, or malicious. For any content, these
functions raise only a `UsageError`, which names the file and the line.
"""

import json
import os
import pathlib
from collections.abc import Callable, Iterator

from kdkit.errors import UsageError, shortened
from kdkit.io.files import fits_own_digest, without_digest

MAX_LINE_BYTES = 1 << 24  # larger than the text of many books
MAX_JSON_BYTES = 1 << 26
# A run's settings have some kilobytes, more only if they name many files; in
# memory, a list of empty lists takes 50 times its bytes.
MAX_SETTINGS_BYTES = 1 << 22
DEPTH = 100  # of nested lists and objects; TensorBoard's have five


def check_links(path, *others) -> None:
    """Raises an error for a directory with links to the outside, or pipes."""
    roots = [os.path.realpath(place) for place in (path, *others)]
    for folder, folders, files in os.walk(path):
        for name in sorted(folders + files):
            item = pathlib.Path(folder, name)
            # Not `resolve`, which fails for links in a circle.
            target = pathlib.Path(os.path.realpath(item))
            if item.is_symlink() and not any(map(target.is_relative_to, roots)):
                raise UsageError(
                    f"{item} is a link to {target}, outside of {path}. If that "
                    "file belongs there, replace the link by a copy."
                )
            if item.exists() and not (item.is_file() or item.is_dir()):
                raise UsageError(
                    f"{item} is neither a file nor a directory, but a pipe, a "
                    "socket or a device. Remove it, or replace it by a file."
                )


def has_text(line: str) -> bool:
    """Whether a line contains visible characters."""
    return any(map(str.isprintable, line.replace(" ", "")))


def numbered_lines(
    path, what: str = "a file of text", errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Yields the number, from 1, and the text of every line in a UTF-8 file."""
    path = pathlib.Path(path)
    try:
        with _opened(path, what) as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                yield number, _decoded(line, path, number, errors)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected {what}."
        ) from error


def _opened(path, what):
    try:
        return open(path, "rb")
    except ValueError as error:  # a zero byte in its name
        raise UsageError(
            f"Cannot read {str(path)!r}: {error}. Expected {what}."
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
        else:
            problem = _not_writable(value)
    if problem is not None:
        raise UsageError(
            f"expected a JSON {_NAMES.get(kind, kind.__name__)}. Received: "
            f"{shortened(text, 60)} ({problem})"
        )
    return value


_NAMES = {dict: "object", list: "list", object: "text"}


def _not_writable(value):
    """Returns why a value could not be written again, or `None`."""
    level = [value]
    for _ in range(DEPTH):
        below = []
        for entry in level:
            if isinstance(entry, dict):
                below += [*entry, *entry.values()]
            elif isinstance(entry, list):
                below += entry
            elif isinstance(entry, str) and not _is_whole(entry):
                return "half a character"
        if not below:
            return None
        level = below
    return f"more than {DEPTH} levels"


def _is_whole(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_lines(path) -> Iterator[tuple[int, dict | None]]:
    """Yields the number, from 1, and the JSON object of every line in a log."""
    path = pathlib.Path(path)
    try:
        with _opened(path, "a log of events") as file:
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
    most: int = MAX_JSON_BYTES,
    kind: type = dict,
) -> dict:
    """Returns the JSON object in a file, or the list."""
    path = pathlib.Path(path)
    try:
        with _opened(path, what) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected {what}."
        ) from error
    problem = None
    if len(content) > most:
        problem = f"expected at most {most} bytes. Received: more"
    else:
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
