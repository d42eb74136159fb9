"""Handlers that print the messages of kdkit's loggers on standard output.

The library reports with `logging` alone, to loggers below `"kdkit"`. On a
terminal, rich prints the messages above a progress bar for the epoch.
Otherwise each message is a line, with one line per epoch.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator

STYLES = {logging.WARNING: "yellow", logging.ERROR: "red"}
LEVELS = ("auto", 0, 1, 2)  # as in `keras.Model.fit`


@contextlib.contextmanager
def shown_messages(verbose: str | int = "auto") -> Iterator[None]:
    """Shows the messages of kdkit's loggers while the block runs.

    Args:
        verbose: one of `LEVELS`. 0 for warnings only, 1 for a display in a
            terminal, 2 for lines. Defaults to `"auto"`: 1 if standard output is
            a terminal, otherwise 2.
    """
    logger = logging.getLogger("kdkit")
    if any(isinstance(one, _Lines | _Terminal) for one in logger.handlers):
        yield  # a verb that runs inside another verb
        return
    before = logger.level, logger.propagate
    is_terminal = sys.stdout.isatty() if verbose == "auto" else verbose == 1
    handler = _Terminal() if is_terminal else _Lines()
    logger.addHandler(handler)
    least = logging.DEBUG if is_terminal else logging.INFO
    logger.setLevel(logging.WARNING if verbose == 0 else least)
    logger.propagate = False  # or other libraries' handlers repeat the messages
    try:
        yield
    finally:
        handler.close()
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Lines(logging.Handler):
    """Prints one line per message, on the current standard output."""

    def emit(self, record):
        print(self.format(record), flush=True)


class _Terminal(logging.Handler):
    """Prints coloured messages, tables of the terminal's width, and a bar."""

    def __init__(self):
        from rich.console import Console

        super().__init__()
        self._console = Console(highlight=False)
        self._bar = self._task = None

    def emit(self, record):
        from rich.text import Text

        if hasattr(record, "progress"):
            self._show(record.progress)
        elif record.levelno >= logging.INFO:
            if hasattr(record, "ends_progress"):
                self._hide()
            if hasattr(record, "renderable"):
                self._console.print(record.renderable)
            else:
                # Not wrapped, so that users can copy paths.
                style = STYLES.get(record.levelno, "")
                text = Text(self.format(record), style)
                self._console.print(text, soft_wrap=True)

    def _show(self, progress):
        """Draws the bar, the first time below all messages."""
        from rich import progress as bars

        if self._bar is None:
            self._bar = bars.Progress(
                bars.TextColumn("{task.description}"),
                bars.BarColumn(bar_width=20),
                bars.MofNCompleteColumn(),
                bars.TextColumn("{task.fields[rest]}"),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._task = self._bar.add_task("", rest="")
            self._bar.start()
        self._bar.update(
            self._task,
            description=progress["title"],
            completed=progress["done"],
            total=progress["total"],
            rest=progress["rest"],
        )
        self._bar.refresh()

    def _hide(self):
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def close(self):
        self._hide()
        super().close()
