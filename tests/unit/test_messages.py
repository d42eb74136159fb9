"""Messages: the library logs them, and the command line shows the logs."""

import io
import logging
import sys

import pytest

from kdkit.cli.messages import shown_messages
from kdkit.training.callbacks import Progress

pytestmark = pytest.mark.usefixtures("quick_runs")

log = logging.getLogger("kdkit.runs.somewhere")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_on(monkeypatch):
    """A terminal in the place of the standard output."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    return sys.stdout


def train(steps=3):
    progress = Progress("student", 1, steps, seconds_between=0.0)
    progress.on_epoch_begin(0)
    for batch in range(steps):
        progress.on_train_batch_end(batch, {"loss": 0.5})
    progress.on_epoch_end(0, {"loss": 0.5})


def test_an_epoch_is_one_line_where_there_is_no_terminal(capsys):
    with shown_messages():
        train()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("student: epoch 1/1, done in ")
    assert line.endswith(": loss 0.5")


def test_a_verb_within_a_verb_shows_a_message_once(capsys):
    with shown_messages():
        with shown_messages():
            log.warning("50 % of [bold]rows are in /a/long/path")
        log.info("later")
    log.info("not shown")
    assert capsys.readouterr().out.splitlines() == [
        "50 % of [bold]rows are in /a/long/path",
        "later",
    ]


def test_a_terminal_has_a_display_until_the_stage_ends(monkeypatch):
    terminal = terminal_on(monkeypatch)
    with shown_messages():
        train()
        shown = terminal.getvalue()
        assert "2/3" in shown
        assert "compiling the first step" in shown
        assert "measuring on dev" in shown
        assert "loss 0.5" in shown
        assert "━" in shown
        *_, last = shown.splitlines()
        assert "student: epoch 1/1, done in" in last
        log.info("after it")
    assert "━" not in terminal.getvalue().partition("done in")[2]


@pytest.mark.parametrize(
    ("verbose", "expected"),
    [(0, ["careful"]), (2, ["careful", "news"])],
)
def test_levels_of_python(verbose, expected, monkeypatch):
    terminal = terminal_on(monkeypatch)
    with shown_messages(verbose):
        log.warning("careful")
        log.info("news")
    assert terminal.getvalue().splitlines() == expected
