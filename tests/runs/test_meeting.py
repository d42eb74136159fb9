"""How processes meet, and what strangers at the chief's port cannot do."""

import contextlib
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import free_ports

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.training import reception
from kdkit.training.cluster import Process
from kdkit.training.meeting import meet
from kdkit.training.reception import TOKEN

SECONDS = 20
HOST = "127.0.0.1"
GOOD = {"rank": 1, "size": 2, "port": 7, "devices": "1 CPU", "token": ""}


@pytest.fixture
def port():
    return free_ports(1)[0]


@pytest.fixture
def join(port):
    """Lets a process come, in a thread; returns the future of what it finds."""
    with ThreadPoolExecutor() as pool:

        def start(rank, size, devices="1 CPU", seconds=SECONDS):
            process = Process(rank, size, (HOST, port))
            return pool.submit(meet, process, devices, seconds)

        yield start


def come(port):
    """A connection to the chief, when it is there."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((HOST, port), SECONDS)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)


def say(port, said):
    """Says something to the chief; returns what it answers until it closes."""
    with come(port) as connection, contextlib.suppress(OSError):
        connection.sendall(said)
        return connection.makefile().read()
    return ""


def line(**changes):
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def test_processes_tell_each_other_where_they_are(join):
    found = [join(rank, 3) for rank in range(3)]
    first, *others = [future.result() for future in found]
    assert others == [first, first]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", one) for one in first)
    assert len(set(first)) == 3


def test_others_get_the_address_where_they_found_the_chief(port):
    # Some launchers tell the chief that it is at localhost.
    with ThreadPoolExecutor() as pool:
        chief, other = (
            pool.submit(meet, Process(rank, 2, (host, port)), "1 CPU", SECONDS)
            for rank, host in enumerate(("somewhere", HOST))
        )
        assert chief.result() == other.result()
        assert all(one.startswith(HOST) for one in chief.result())


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_that_do_not_come_are_told(rank, join):
    with pytest.raises(RunError, match="in time"):
        join(rank, 2, seconds=0.3).result()


def test_processes_with_unequal_devices_are_all_refused(join):
    found = [join(0, 3, "2 GPU"), join(1, 3, "2 GPU"), join(2, 3, "1 GPU")]
    for future in found:
        with pytest.raises(UsageError, match="process 2: 1 GPU"):
            future.result()


def test_several_processes_on_a_machine_are_refused():
    process = Process(0, 4, (HOST, 1), on_machine=2)
    with pytest.raises(UsageError, match="Received: 2 on one"):
        meet(process, "1 CPU", 0.1)


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\xff{{{\n",
        b"[" * 4000 + b"\n",
        b'{"rank": 1',
        b"x" * 100_000,
        line(rank=-1),
        line(rank=2),
        line(rank=True),
        line(port=1 << 16),
        line(devices=None),
        line(more=1),
        line() + b"more",
        b"1" * 4000 + b"\n",
    ],
    ids=range(12),
)
def test_what_is_no_claim_is_closed_and_the_meeting_goes_on(said, port, join):
    chief = join(0, 2)
    with come(port) as connection, contextlib.suppress(OSError):
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert join(1, 2).result() == chief.result()


def closes(connection, said, pause=0.0):
    """Whether the chief closes a connection where something is said again."""
    until = time.monotonic() + SECONDS
    with contextlib.suppress(OSError):
        while time.monotonic() < until:
            connection.sendall(said)
            time.sleep(pause)
        return False
    return True


def test_an_endless_line_is_not_kept(port, join):
    chief = join(0, 2)
    with come(port) as connection:
        assert closes(connection, b"x" * (1 << 16))
    assert join(1, 2).result() == chief.result()


def test_slow_and_silent_strangers_hold_up_nobody(port, join, monkeypatch):
    monkeypatch.setattr(reception, "GUEST_SECONDS", 2)
    chief = join(0, 2)
    with come(port) as silent, come(port) as slow, ThreadPoolExecutor() as pool:
        slow_is_closed = pool.submit(closes, slow, b"x", 0.02)
        # Another is heard beside them.
        assert "Process 0 waits for 2 processes" in say(port, line(size=3))
        assert not slow_is_closed.done()
        # Each has its time in all, not for each of its signs.
        assert slow_is_closed.result()
        assert silent.recv(1) == b""
    assert join(1, 2).result() == chief.result()


def test_a_slow_stranger_does_not_lengthen_the_meeting(port, join):
    chief = join(0, 2, seconds=1)
    with come(port) as slow:
        assert closes(slow, b"x", 0.05)
    with pytest.raises(RunError, match="Missing: 1 of 2"):
        chief.result()


def test_many_strangers_leave_room_for_a_process(port, join, monkeypatch):
    monkeypatch.setattr(reception, "MAX_GUESTS", 3)
    chief = join(0, 2)
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(come(port))
        assert join(1, 2).result() == chief.result()


def test_a_second_claim_is_refused_while_the_first_is_there(port, join):
    chief = join(0, 3)
    with come(port) as first:
        first.sendall(line(size=3))
        time.sleep(0.5)
        with pytest.raises(UsageError, match="Process 1 is here already"):
            join(1, 3).result()
    found = join(1, 3), join(2, 3)
    assert found[0].result() == found[1].result() == chief.result()


def test_a_token_is_the_same_for_all(port, join, monkeypatch):
    monkeypatch.setenv(TOKEN, "of this job")
    chief = join(0, 2)
    for token in ("", "of another job"):
        assert TOKEN in say(port, line(token=token))
    assert join(1, 2).result() == chief.result()
