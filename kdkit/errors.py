"""kdkit's two exceptions, and helpers for messages."""

import contextlib
import difflib
import importlib.util
import unicodedata

CLOSE = 0.75  # the similarity from which a name may be mistyped


class UsageError(ValueError):
    """The caller's mistake: the request cannot be fulfilled.

    The message contains the problem, what was expected and received, and the
    fix. The command line prints only the message and exits with status 2.
    """


class RunError(RuntimeError):
    """A valid request failed: a NaN, a failed verification.

    The command line prints only the message and exits with status 1.
    """


def require_extra(extra: str, *modules: str) -> None:
    """Requires the modules of an extra, without importing them.

    Args:
        extra: string. The name of the extra in setup.py.
        *modules: strings, such as `"tf2onnx"`.

    Raises:
        UsageError: (a `ValueError`) if one is missing.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise UsageError(
                f"{name} is not installed. Run pip install '.[{extra}]' in a "
                "clone of kdkit."
            )


@contextlib.contextmanager
def all_mistakes():
    """Collects the errors of several checks and raises them as one.

    Yields a context manager that records a `UsageError` and continues. At the
    end of the block all recorded errors are raised as one, without repetitions.

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
    r"""Returns a text with the characters escaped that a terminal interprets.

    Names and texts from files may contain characters that move the cursor or
    rename the window. Line feeds, tabs and spaces are not escaped.

    >>> print(printable("a name\x1b]0;another title\x07"))
    a name\x1b]0;another title\x07
    """
    return "".join(
        sign
        if sign.isprintable()
        or sign in "\n\t"
        or unicodedata.category(sign) == "Zs"  # for example no-break spaces
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


def unknown(what: str, name, names) -> UsageError:
    """Returns the error for a name that is not there: what is, nearest first.

    >>> print(unknown("task", "sst", ["mrpc", "sst2"]))
    Unknown task 'sst'. Expected one of: sst2, mrpc.
    """

    def likeness(one):
        return difflib.SequenceMatcher(None, str(name), one).ratio()

    listed = ", ".join(sorted(map(str, names), key=likeness, reverse=True))
    return UsageError(f"Unknown {what} {name!r}. Expected one of: {listed}.")
