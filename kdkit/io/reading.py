"""Reading what others wrote: in bounded memory, with an error that says where.

Files may be cut off, of another format, or made to do harm. Whatever they hold,
what these functions raise is a `UsageError` that names the file and the line.
"""

import json
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.files import fits_own_digest
from kdkit.io.files import without_digest

MAX_LINE_BYTES = 1 << 24  # a document of many books; data in one line is none
MAX_JSON_BYTES = 1 << 26
# A run's settings have some kilobytes, more only if they name many files; a
# list of empty lists takes 50 times its bytes.
MAX_SETTINGS_BYTES = 1 << 22
DEPTH = 100  # of lists and objects in each other; TensorBoard's have five


def check_links(path, *others) -> None:
    """Refuses a directory with links to what lies outside of it, or pipes.

    What a stranger packed could read and change your files by links, and wait
    for ever where a pipe stands in the place of a file.

    Args:
        path: path of a directory, or of nothing.
        others: paths of directories that links may lead to as well.

    Raises:
        UsageError: with the first of such links, or with the first that is
            neither a file nor a directory.
    """
    roots = [os.path.realpath(place) for place in (path, *others)]
    for folder, folders, files in os.walk(path):
        for name in sorted(folders + files):
            item = pathlib.Path(folder, name)
            # Not `resolve`, which fails for links in a circle.
            target = pathlib.Path(os.path.realpath(item))
            if item.is_symlink() and not any(map(target.is_relative_to, roots)):
                raise UsageError(
                    f"{item} is a link to {target}, outside of {path}. Put "
                    "what it leads to in its place, if it belongs there."
                )
            if item.exists() and not (item.is_file() or item.is_dir()):
                raise UsageError(
                    f"{item} is neither a file nor a directory, but a pipe, a "
                    "socket or a device. Remove it, or put a file in its place."
                )


def has_text(line: str) -> bool:
    """Whether anything is printed of a line.

    White space is no text, nor is what has no width, such as U+200B: no
    vocabulary has a token for it.

    >>> has_text("a"), has_text(" \u200b ")
    (True, False)
    """
    return any(map(str.isprintable, line.replace(" ", "")))


def numbered_lines(
    path, what: str = "a file of text", errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of every line of a UTF-8 file.

    Holds one line at a time. A byte order mark and the ends of the lines are
    left out.

    Args:
        path: path of the file.
        what: string. What the file should be, for the error.
        errors: string. `"replace"` to put a sign in the place of what is not
            UTF-8. Defaults to `"strict"`.

    Raises:
        UsageError: if the file cannot be read, and with the number of the line
            where one is longer than 16 MiB, is not UTF-8 or holds a zero byte.
    """
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
            "Received: a longer one. Is it a file of text? Break the line."
        )
    if b"\0" in line:
        raise UsageError(
            f"{where}: expected text in UTF-8. Received: a zero byte, as in "
            "UTF-16 and in files that are no text. Convert the file, for "
            "example with iconv."
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
    """Returns the value that a JSON text says.

    Args:
        text: string or bytes in UTF-8.
        kind: type. What it should be. Defaults to `dict`.

    Raises:
        UsageError: if it is none, of another kind, has numbers of thousands of
            digits, halves of characters or goes down 100 levels.

    >>> parse_json('{"epoch": 1}')
    {'epoch': 1}
    """
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
    """What is wrong with a value that could not be written again."""
    level = [value]
    for _ in range(DEPTH):
        below = []
        for entry in level:
            if isinstance(entry, dict):
                below += [*entry, *entry.values()]
            elif isinstance(entry, list):
                below += entry
            elif isinstance(entry, str) and not _is_whole(entry):
                return "half of a character"
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
    """Yields number, from 1, and JSON object of every line of a log.

    Args:
        path: path of the file.

    Yields:
        `None` in the place of an object for a line that is none, as a process
        that dies while it writes leaves it, or that its own digest does not
        fit. Empty lines are passed over.

    Raises:
        UsageError: if the file cannot be read.
    """
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
) -> dict:
    """Returns the JSON object in a file.

    Args:
        path: path of the file.
        what: string. What the file should be, for the error.
        check: callable of the object that returns what is wrong with it, or
            `None`. Defaults to one that finds nothing.
        most: int. Bytes that it may have. Defaults to 64 MiB.

    Raises:
        UsageError: if the file cannot be read, has more bytes or is not what
            it should be.
    """
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
            value = parse_json(content)
            problem = check(value)
        except UsageError as error:
            problem = str(error)
    if problem is not None:
        raise UsageError(
            f"{path} is damaged or something else than {what}: {problem}. "
            "Restore it from a copy, or make it again."
        )
    return value
