"""Checks within seconds whether servers answer."""

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

SECONDS = 10  # for all servers together; looking up a name has no limit
# Seconds for which a server that did not answer is not asked again: a run reads
# several splits, and a notebook may get its connection back.
REMEMBERED = 60

_failures = {}  # from servers to the time and the problem


def require_connection(
    addresses: Iterable[str], what: str, advice: str
) -> None:
    """Checks that a server answers, before a library tries for minutes."""
    by_server = {
        urllib.parse.urlsplit(address).netloc: address for address in addresses
    }
    servers = ", ".join(by_server)
    answers = queue.Queue()
    since, problem = _failures.get(servers, (-math.inf, None))
    if time.monotonic() - since < REMEMBERED:
        by_server = {}
    for address in by_server.values():
        # Daemons, so that the process does not wait for them at its end.
        threading.Thread(
            target=lambda address=address: answers.put(_problem(address)),
            daemon=True,
        ).start()
    end = time.monotonic() + SECONDS
    try:
        for _ in by_server:
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
    """Returns why a server does not answer, `None` if it does."""
    request = urllib.request.Request(address, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=SECONDS / 2).close()
    except urllib.error.HTTPError:
        return None  # an answer
    except urllib.error.URLError as error:
        # Libraries may use their own certificates.
        is_answer = isinstance(error.reason, ssl.SSLError)
        return None if is_answer else str(error.reason)
    except OSError as error:
        return str(error) or type(error).__name__
    return None
