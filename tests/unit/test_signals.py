"""kdkit.io.signals: delayed until some work is finished, or at once."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from kdkit.cli import main as command_line
from kdkit.io.signals import StopSignals, Terminated, terminable

RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}


@pytest.fixture(autouse=True)
def _as_at_a_terminal():
    """SIGINT as Python has it; shells let background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_is_raised_when_what_was_begun_is_finished(number):
    finished = []

    def work():
        with StopSignals() as stop:
            send(number)
            finished.append(stop.is_requested)
            stop.raise_if_requested()
            finished.append("never")

    with pytest.raises(RAISED[number]):
        work()
    assert finished == [True]


@pytest.mark.parametrize("number", RAISED)
def test_a_second_signal_is_raised_at_once(number):
    finished = []

    def work():
        with StopSignals():
            send(number)
            finished.append("once")
            send(number)
            finished.append("never")

    with pytest.raises(RAISED[number]):
        work()
    assert finished == ["once"]


def test_a_signal_is_raised_where_nothing_must_be_finished():
    reached = []

    def work():
        with StopSignals() as stop, stop.at_once():
            send(signal.SIGTERM)
            reached.append("never")

    with pytest.raises(Terminated):
        work()
    assert not reached


def test_a_signal_at_the_very_end_is_not_lost():
    with pytest.raises(KeyboardInterrupt), StopSignals():
        send(signal.SIGINT)


def test_handlers_are_those_of_before_afterwards():
    before = [signal.getsignal(number) for number in RAISED]
    with terminable(), StopSignals() as stop:
        assert not stop.is_requested
    assert [signal.getsignal(number) for number in RAISED] == before


def test_nothing_is_noted_where_it_is_off_or_in_another_thread():
    def without_signals():
        with StopSignals():
            seen.append(signal.getsignal(signal.SIGINT))

    seen = []
    with StopSignals(is_on=False):
        seen.append(signal.getsignal(signal.SIGINT))
    thread = threading.Thread(target=without_signals)
    thread.start()
    thread.join()
    assert seen == 2 * [signal.getsignal(signal.SIGINT)]


def test_a_process_that_sigterm_ends_has_status_143():
    code = (
        "import os, signal\n"
        "from kdkit.io.signals import terminable\n"
        "with terminable():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 143


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_verb_that_is_stopped_has_its_status(number, status, monkeypatch):
    monkeypatch.setattr(command_line, "_run", lambda *unused: send(number))
    assert command_line.main(["report", "runs/pkd"]) == status
