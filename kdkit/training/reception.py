"""The chief's port, where the processes of a job say who they are.

Whoever reaches the port can write to it. What is read is short, and is waited
for a few seconds while others are heard; what is no claim of a process is
closed.
"""

import contextlib
import dataclasses
import hmac
import json
import selectors
import socket
import time

from kdkit.errors import UsageError
from kdkit.reading import parse_json
from kdkit.settings import from_dict

# For a guest to say who it is, and of those that have not yet, how many.
GUEST_SECONDS, MAX_GUESTS = 10, 64
MAX_CLAIM_BYTES = 1 << 12
TOKEN = "KDKIT_CLUSTER_TOKEN"


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a process tells the chief.

    Args:
        rank: int. Its number, from 0.
        size: int. The number of processes that it knows of.
        port: int. Where it computes.
        devices: string. What it trains on, such as `"2 GPU"`.
        token: string. The digest of a secret of the job, or `""`.

    Raises:
        UsageError: if no process says this.
    """

    rank: int
    size: int
    port: int
    devices: str
    token: str = ""

    def __post_init__(self):
        if not (0 <= self.rank < self.size and 0 < self.port < 1 << 16):
            raise UsageError(
                f"Expected the claim of a process. Received: {self}."
            )


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the chief tells a process.

    Args:
        addresses: tuple of strings `host:port`, by rank, of all processes.
        problem: string. What is wrong, or `""`.
    """

    addresses: tuple[str, ...] = ()
    problem: str = ""


def read_line(kind: type, line: bytes):
    """Returns what was said in a line.

    Args:
        kind: `Claim` or `Answer`.
        line: bytes. JSON.

    Raises:
        UsageError: if it is something else.
    """
    return from_dict(kind, parse_json(line))


@dataclasses.dataclass(eq=False)
class Guest:
    """One that came to the chief's port; a member once it has a claim.

    Args:
        connection: `socket.socket`.
        host: string. Where it came from.
        deadline: float. The `time.monotonic` until when it may make a claim.
        said: bytes. What was read of it. Defaults to nothing.
        claim: `Claim` or `None`. Defaults to `None`.
    """

    connection: socket.socket
    host: str
    deadline: float
    said: bytes = b""
    claim: Claim | None = None

    @property
    def found_chief_at(self) -> str:
        """The address of the chief that it reached."""
        return self.connection.getsockname()[0]

    def tell(self, answer: Answer) -> None:
        """Sends an answer.

        Raises:
            OSError: if the guest is gone.
        """
        self.connection.settimeout(GUEST_SECONDS)
        text = json.dumps(dataclasses.asdict(answer))
        self.connection.sendall(f"{text}\n".encode())


class Reception:
    """Hears all who come to the chief's port, side by side.

    Args:
        server: `socket.socket` that listens. It is closed at the end of the
            context.
        own: `Claim` of the chief.
    """

    def __init__(self, server: socket.socket, own: Claim):
        self._server = server
        self._own = own
        self._guests = []
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for guest in list(self._guests):
            self._close(guest)
        self._selector.close()
        self._server.close()

    def members(self) -> list[Guest]:
        """The guests that are processes of the job, by rank."""
        found = [guest for guest in self._guests if guest.claim]
        return sorted(found, key=lambda guest: guest.claim.rank)

    def missing(self) -> list[int]:
        """The numbers of the processes that did not come yet."""
        here = {0, *(guest.claim.rank for guest in self.members())}
        return sorted(set(range(self._own.size)) - here)

    def hear(self, deadline: float) -> None:
        """Waits for something to be said, or for one of the deadlines.

        Args:
            deadline: float. The `time.monotonic` of the end of the meeting.
        """
        until = min([deadline, *(guest.deadline for guest in self._unknown())])
        ready = self._selector.select(max(until - time.monotonic(), 0))
        for key, _ in ready:
            if key.data is None:
                self._welcome()
            elif key.data in self._guests:
                self._listen(key.data)
        for guest in self._unknown():
            if guest.deadline <= time.monotonic():
                self._close(guest)

    def _unknown(self):
        return [guest for guest in self._guests if guest.claim is None]

    def _welcome(self):
        try:
            connection, (host, _) = self._server.accept()
        except OSError:  # gone again
            return
        connection.setblocking(False)
        guest = Guest(connection, host, time.monotonic() + GUEST_SECONDS)
        self._guests.append(guest)
        self._selector.register(connection, selectors.EVENT_READ, guest)
        # A process says at once who it is, so the oldest is a stranger.
        for stranger in self._unknown()[:-MAX_GUESTS]:
            self._close(stranger)

    def _listen(self, guest):
        try:
            received = guest.connection.recv(MAX_CLAIM_BYTES)
        except OSError:
            received = b""
        guest.said += received
        line, end, rest = guest.said.partition(b"\n")
        # A member that leaves, or says more, is none: another may come.
        is_too_long = len(guest.said) > MAX_CLAIM_BYTES
        if not received or rest or guest.claim or is_too_long:
            self._close(guest)
        elif end:
            self._take(guest, line)

    def _take(self, guest, line):
        """Notes the claim of a guest, or tells it what is wrong."""
        try:
            claim = read_line(Claim, line)
        except UsageError:
            self._close(guest)
            return
        problem = self._problem(claim)
        if not problem:
            guest.claim = claim
            return
        with contextlib.suppress(OSError):
            guest.tell(Answer(problem=problem))
        self._close(guest)

    def _problem(self, claim):
        if not hmac.compare_digest(
            claim.token.encode(), self._own.token.encode()
        ):
            return (
                f"The variable {TOKEN} must be the same for all processes. "
                "Received: another one than that of process 0."
            )
        if claim.size != self._own.size:
            return (
                f"Process 0 waits for {self._own.size} processes in all. "
                f"Received: process {claim.rank} of {claim.size}. Is another "
                "job there? Choose another port."
            )
        if claim.rank not in self.missing():
            return (
                f"Process {claim.rank} is here already. Received: another with "
                "this number. Is it left from an earlier start?"
            )
        return ""

    def _close(self, guest):
        self._guests.remove(guest)
        self._selector.unregister(guest.connection)
        guest.connection.close()
