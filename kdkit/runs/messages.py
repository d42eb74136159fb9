"""Handlers that print the messages of kdkit's loggers on standard output.

The library reports with `logging` alone, to loggers below `"kdkit"`. In a
terminal, rich prints the messages above a display of the stage that trains, and
finished epochs in brief. Elsewhere each message is a line, with one line per
epoch.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator

from kdkit.io.machine import duration
from kdkit.late import LateModule

rich_console, rich_live, rich_bar, rich_table, rich_text = (
    LateModule(f"rich.{name}", "rich")
    for name in ("console", "live", "progress_bar", "table", "text")
)

STYLES = {logging.WARNING: "yellow", logging.ERROR: "red"}
BAR_WIDTH = 24


@contextlib.contextmanager
def shown_messages(verbose: str | int = "auto") -> Iterator[None]:
    """Shows the messages of kdkit's loggers while the block runs."""
    logger = logging.getLogger("kdkit")
    if any(
        isinstance(one, _Lines | TerminalHandler) for one in logger.handlers
    ):
        yield  # a verb that runs inside another verb
        return
    before = logger.level, logger.propagate
    is_terminal = verbose == 1
    if verbose == "auto" and sys.stdout is not None:
        is_terminal = sys.stdout.isatty()
    handler = TerminalHandler() if is_terminal else _Lines()
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
        sys.stdout.write(f"{self.format(record)}\n")
        sys.stdout.flush()


class TerminalHandler(logging.Handler):
    """Prints coloured messages, tables of the terminal's width, and a display.

    The display is below all messages while a stage trains.
    """

    def __init__(self):
        super().__init__()
        self.console = rich_console.Console(highlight=False)
        self._live = None

    def emit(self, record):
        if hasattr(record, "progress"):
            self.show(record.progress)
        elif record.levelno >= logging.INFO:
            if getattr(record, "ends_progress", False):
                self.hide()
            if hasattr(record, "renderable"):
                self.console.print(record.renderable)
            else:
                # Not wrapped, so that users can copy paths.
                style = STYLES.get(record.levelno, "")
                text = getattr(record, "brief", None) or self.format(record)
                self.console.print(rich_text.Text(text, style), soft_wrap=True)

    def show(self, progress) -> None:
        """Draws the display."""
        if self._live is None:
            self._live = rich_live.Live(
                console=self.console, auto_refresh=False, transient=True
            )
            self._live.start()
        self._live.update(progress_display(progress), refresh=True)

    def hide(self) -> None:
        """Removes the display."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self):
        self.hide()
        super().close()


def progress_display(progress):
    """Returns two lines for a terminal: where a stage is, and its numbers."""
    done = (progress.epoch - 1) * progress.steps_per_epoch + progress.step
    total = progress.num_epochs * progress.steps_per_epoch
    left = progress.doing
    if progress.seconds_left is not None:
        left += f"{', ' * bool(left)}{duration(progress.seconds_left)} left"
    first = rich_table.Table.grid(padding=(0, 2))
    first.add_row(
        rich_text.Text(progress.title, "bold"),
        rich_text.Text(f"epoch {progress.epoch}/{progress.num_epochs}", "cyan"),
        rich_bar.ProgressBar(total, done, width=BAR_WIDTH),
        rich_text.Text(f"step {progress.step}/{progress.steps_per_epoch}"),
        rich_text.Text(left, "magenta"),
    )
    second = rich_text.Text("  ", no_wrap=True, overflow="ellipsis")
    second.append(progress.losses)
    if progress.dev:
        second.append(f"   dev {progress.dev}", "green")
    return rich_console.Group(first, second)
