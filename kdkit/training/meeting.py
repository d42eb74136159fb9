"""How the processes of a job find each other: at a socket of the chief."""

import dataclasses
import hashlib
import json
import os
import socket
import time

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.training.cluster import Process
from kdkit.training.reception import TOKEN
from kdkit.training.reception import Answer
from kdkit.training.reception import Claim
from kdkit.training.reception import Reception
from kdkit.training.reception import read_line

MEETING_SECONDS = 300
MAX_ANSWER_BYTES = 1 << 20


def meet(
    process: Process, devices: str, seconds: float = MEETING_SECONDS
) -> list[str]:
    """Waits for all processes; returns the addresses where they compute.

    Args:
        process: `Process`.
        devices: string. What it trains on, which is the same for all.
        seconds: float. How long to wait. Defaults to 300 s.

    Raises:
        UsageError: if there are several processes on a machine, and on all of
            them if they train on other devices. For what the chief refuses: a
            number that is taken, another job, another `KDKIT_CLUSTER_TOKEN`.
        RunError: with who did not come.
    """
    if process.on_machine > 1:
        raise UsageError(
            "A process trains on all devices of its machine. Expected one "
            f"process on each. Received: {process.on_machine} on one. Use srun "
            "--ntasks-per-node 1, or torchrun --nproc-per-node 1."
        )
    deadline = time.monotonic() + seconds
    host, port = process.meeting
    print(
        f"Process {process.rank} of {process.size}: waiting up to {seconds:.0f}"
        f" s for the others at {host}:{port}.",
        flush=True,
    )
    token = os.environ.get(TOKEN, "")
    if token:
        token = hashlib.sha256(token.encode()).hexdigest()
    claim = Claim(process.rank, process.size, _free_port(), devices, token)
    if process.rank == 0:
        return _gather(process, claim, deadline)
    return _report(process, claim, deadline)


def _gather(process, own, deadline):
    """What the chief does: takes all claims, then tells all of them."""
    host, port = process.meeting
    try:
        server = socket.create_server(("", port))
    except OSError as error:
        raise RunError(
            f"Process 0 cannot wait at port {port}: {error.strerror}. Is "
            "another job there? Choose another port."
        ) from error
    with Reception(server, own) as reception:
        while missing := reception.missing():
            if time.monotonic() > deadline:
                raise RunError(
                    f"Not all processes came to {host}:{port} in time. "
                    f"Missing: {', '.join(map(str, missing))} of "
                    f"{process.size}. Were they started, with the same "
                    "variables?"
                )
            reception.hear(deadline)
        guests = reception.members()
        claims = [own, *(guest.claim for guest in guests)]
        # Where the others found the chief: its variable may say localhost.
        hosts = [guests[0].found_chief_at if guests else host]
        hosts += [guest.host for guest in guests]
        found = process.addresses or tuple(
            f"{place}:{claim.port}"
            for place, claim in zip(hosts, claims, strict=True)
        )
        problem = _unequal_devices(claims)
        for guest in guests:
            try:
                guest.tell(Answer(found, problem))
            except OSError as error:
                raise RunError(
                    f"Process {guest.claim.rank} at {guest.host} went while "
                    f"all met: {error.strerror or error}. Its output says why."
                ) from error
    if problem:
        raise UsageError(problem)
    return list(found)


def _unequal_devices(claims):
    """What is wrong with the devices of the processes, or `""`."""
    if len({claim.devices for claim in claims}) == 1:
        return ""
    listed = ", ".join(
        f"process {claim.rank}: {claim.devices}" for claim in claims
    )
    return (
        "Each process needs as many devices of the same kind as the others. "
        f"Received: {listed}. Choose as many GPUs on each with --devices."
    )


def _report(process, own, deadline):
    """What the others do: say who they are, and wait for all addresses."""
    host, port = process.meeting
    said = (json.dumps(dataclasses.asdict(own)) + "\n").encode()
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, port), left) as connection:
                connection.sendall(said)
                line = _read_line(connection, deadline)
            answer = read_line(Answer, line)
        except (OSError, UsageError):  # nobody there yet, or a stranger
            answer = Answer()
        if answer.problem:
            raise UsageError(answer.problem)
        if len(answer.addresses) == process.size:
            return list(answer.addresses)
        time.sleep(0.2)
    raise RunError(
        f"Process {process.rank} did not meet all others at {host}:{port} in "
        "time. Were they started, with the same variables?"
    )


def _read_line(connection, deadline):
    """Reads what the chief says, up to the end of a line."""
    said = b""
    while not said.endswith(b"\n") and len(said) <= MAX_ANSWER_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        received = connection.recv(1 << 16)
        if not received:
            break
        said += received
    return said


def _free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]
