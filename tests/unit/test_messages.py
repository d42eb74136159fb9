"""Messages: the library logs them, and the command line shows the logs."""

import io
import logging
import sys

import pytest

from kdkit.runs.messages import shown_messages

log = logging.getLogger("kdkit.runs.somewhere")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_verb_within_a_verb_shows_a_message_once(capsys):
    line = "50 % of [bold]rows are in /a/long/path"
    with shown_messages():
        with shown_messages():
            log.warning(line)
        log.info("later")
    log.info("not shown")
    assert capsys.readouterr().out.splitlines() == [line, "later"]


@pytest.mark.parametrize(
    ("verbose", "expected"),
    [(0, ["careful"]), (2, ["careful", "news"])],
)
def test_levels_of_python(verbose, expected, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    with shown_messages(verbose):
        log.warning("careful")
        log.info("news")
    assert sys.stdout.getvalue().splitlines() == expected
