"""Whether servers answer, found out in seconds."""

import math
import queue
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable

from kdkit.errors import UsageError

SECONDS = 10  # for all servers together; a lookup of a name has no limit
# So long a server that did not answer is not asked again: a run reads several
# splits, and a notebook may get its connection back.
REMEMBERED = 60

_failures = {}  # from servers to the time and the problem


def require_connection(
    addresses: Iterable[str], what: str, advice: str
) -> None:
    """Checks that a server answers before a library tries it for minutes.

    Args:
        addresses: iterable of strings. What is to be fetched; one server that
            answers, with an error too, is enough.
        what: string. What needs it, the beginning of the error.
        advice: string. What to do without a connection.

    Raises:
        UsageError: (a `ValueError`) if none answers within `SECONDS`.
    """
    of_server = {
        urllib.parse.urlsplit(address).netloc: address for address in addresses
    }
    servers = ", ".join(of_server)
    answers = queue.Queue()
    since, problem = _failures.get(servers, (-math.inf, None))
    if time.monotonic() - since < REMEMBERED:
        of_server = {}
    for address in of_server.values():
        # Not to be waited for at the end of the process.
        threading.Thread(
            target=lambda address=address: answers.put(_problem(address)),
            daemon=True,
        ).start()
    end = time.monotonic() + SECONDS
    try:
        for _ in of_server:
            problem = answers.get(timeout=max(end - time.monotonic(), 0))
            if problem is None:
                return
    except queue.Empty:
        problem = f"no answer within {SECONDS} s"
    if problem is None:  # nothing to ask
        return
    _failures[servers] = (time.monotonic(), problem)
    raise UsageError(
        f"{what} cannot be downloaded: {servers} cannot be reached "
        f"({problem}). {advice}"
    )


def _problem(address):
    """Why a server does not answer, `None` if it does."""
    request = urllib.request.Request(address, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=SECONDS / 2).close()
    except urllib.error.HTTPError:
        return None  # an answer
    except urllib.error.URLError as error:
        # Libraries have certificates of their own.
        is_answer = isinstance(error.reason, ssl.SSLError)
        return None if is_answer else str(error.reason)
    except OSError as error:
        return str(error) or type(error).__name__
    return None
