"""SIGINT and SIGTERM: raised at once, or after a step is complete."""

import contextlib
import signal
import threading

INTERRUPTED, TERMINATED = 130, 143  # exit statuses, as in shells


class Terminated(SystemExit):
    """SIGTERM as an exception; a process that it ends has status 143."""

    def __init__(self):
        super().__init__(TERMINATED)


STOPS = (KeyboardInterrupt, Terminated)


@contextlib.contextmanager
def terminable():
    """Makes SIGTERM raise `Terminated`, like SIGINT `KeyboardInterrupt`."""
    with _handled({signal.SIGTERM}, _raise):
        yield


class StopSignals:
    """Delays SIGINT and SIGTERM until the current work is complete."""

    def __init__(self, is_on: bool = True):
        self._numbers = {signal.SIGINT, signal.SIGTERM} if is_on else set()
        self._number = None
        self._at_once = False

    def __enter__(self):
        self._context = _handled(self._numbers, self._note)
        self._context.__enter__()
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)
        if error[0] is None:
            self.raise_if_requested()

    @property
    def is_requested(self) -> bool:
        """Whether a signal arrived."""
        return self._number is not None

    def raise_if_requested(self) -> None:
        """Raises the exception for a recorded signal, if there is one."""
        if self._number is not None:
            _raise(self._number)

    @contextlib.contextmanager
    def at_once(self):
        """Raises a recorded signal, and new ones when they arrive."""
        self.raise_if_requested()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _note(self, number, frame=None):
        is_second = self._number is not None
        self._number = number
        if is_second or self._at_once:
            _raise(number)


def _raise(number, frame=None):
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


@contextlib.contextmanager
def _handled(numbers, handler):
    """Sets the handler of signals that are not ignored, inside the block."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
