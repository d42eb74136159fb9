"""kdkit's two exceptions, and helpers for messages."""

import difflib
import errno
import importlib.util
import os
import unicodedata

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # of a disk


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


def disk_problem(error: BaseException) -> bool:
    """Whether an exception is that of a full or failing disk."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in FULL
    # h5py, safetensors and TensorFlow only pass on the system's text.
    return any(os.strerror(number) in str(error) for number in FULL)


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


def unknown(what: str, name, names) -> UsageError:
    """Returns the error for a name that is not there: what is, nearest first.

    >>> print(unknown("task", "sst", ["mrpc", "sst2"]))
    Unknown task 'sst'. Expected one of: sst2, mrpc.
    """

    def likeness(one):
        return difflib.SequenceMatcher(None, str(name), one).ratio()

    listed = ", ".join(sorted(map(str, names), key=likeness, reverse=True))
    return UsageError(f"Unknown {what} {name!r}. Expected one of: {listed}.")
