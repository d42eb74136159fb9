"""The two ways in which kdkit says no."""

import contextlib
import difflib
import unicodedata

CLOSE = 0.75  # how alike two names are of which one may be mistyped


class UsageError(ValueError):
    """What was asked for cannot be done: a mistake of the caller.

    The message says what is wrong, what was expected, what was received and
    how to fix it. The command line prints it alone and exits with status 2.
    """


class RunError(RuntimeError):
    """Work that was rightly asked for failed: a NaN, a failed verification.

    The command line prints it alone and exits with status 1.
    """


@contextlib.contextmanager
def all_mistakes():
    """Lets several checks tell their mistakes at once.

    Yields a context manager that notes a `UsageError` and goes on. At the end
    all that were noted are raised as one, each of them once.

    >>> try:
    ...     with all_mistakes() as check:
    ...         with check():
    ...             raise UsageError("one")
    ...         with check():
    ...             raise UsageError("two")
    ... except UsageError as error:
    ...     print(error)
    one
    two
    """
    problems = []

    @contextlib.contextmanager
    def check():
        try:
            yield
        except UsageError as error:
            problems.append(str(error))

    yield check
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))


def printable(text: str) -> str:
    r"""Returns a text that a terminal shows and does not obey.

    Names and texts of files may hold the signs that move its cursor or rename
    its window. They are spelled out, but for line feeds, tabs and spaces.

    >>> print(printable("a name\x1b]0;another title\x07"))
    a name\x1b]0;another title\x07
    """
    return "".join(
        sign
        if sign.isprintable()
        or sign in "\n\t"
        or unicodedata.category(sign) == "Zs"  # such as those without a break
        else sign.encode("unicode_escape").decode()
        for sign in text
    )


def shortened(value, limit: int = 100) -> str:
    """Returns the beginning of a value's `repr`, for messages.

    >>> shortened("word " * 1000, limit=16)
    "'word word word ..."
    """
    if isinstance(value, str | bytes):
        value = value[: limit + 1]
    elif isinstance(value, list | tuple):
        value = value[:limit]
    shown = repr(value)
    return shown if len(shown) <= limit else f"{shown[:limit]}..."


def suggestion(name: str, valid) -> str:
    """Returns the question whether another name was meant, with a space first.

    >>> suggestion("--tsk", ["--task", "--seed"])
    ' Did you mean --task?'
    >>> suggestion("--nothing", ["--task", "--seed"])
    ''
    """
    close = difflib.get_close_matches(str(name), map(str, valid), 1, CLOSE)
    return f" Did you mean {close[0]}?" if close else ""
