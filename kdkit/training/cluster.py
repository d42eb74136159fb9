"""The processes of a job: who they are, and how they find each other."""

import contextlib
import dataclasses
import json
import os
import re
import socket
import time

from kdkit.errors import RunError
from kdkit.errors import UsageError

MEETING_SECONDS = 300
EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": '
    '"worker", "index": 0}}'
)


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of a job.

    Args:
        rank: int. Its number, from 0, the chief.
        size: int. The number of processes.
        meeting: tuple of the host and the port where the chief waits for the
            others.
        addresses: tuple of strings `host:port` where each of them computes, or
            `None` for what they tell the chief.
    """

    rank: int
    size: int
    meeting: tuple[str, int]
    addresses: tuple[str, ...] | None = None


def process_of_launcher(variables=os.environ) -> Process:
    """Returns which process this is, as a launcher says it in variables.

    These are TensorFlow's `TF_CONFIG`, or those that `srun` sets
    (`SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`, `SLURM_STEP_NODELIST`,
    `SLURM_JOB_ID`), or those of `torchrun` and of Kubernetes' PyTorchJob
    (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`), whichever is there, in
    this order.

    Args:
        variables: mapping. Defaults to the environment.

    Raises:
        UsageError: if there are none, they are malformed, or there is one
            process.
    """
    if variables.get("TF_CONFIG"):
        process = _of_tf_config(variables["TF_CONFIG"])
    elif "SLURM_STEP_NODELIST" in variables:
        process = _of_slurm(variables)
    elif "WORLD_SIZE" in variables:
        process = _of_torchrun(variables)
    else:
        raise UsageError(
            "No launcher says which process of how many this is. Expected "
            f"TF_CONFIG={EXAMPLE!r}, srun's variables, or RANK, WORLD_SIZE and "
            "MASTER_ADDR. Received: none of them."
        )
    if process.size == 1:
        raise UsageError(
            "Several processes make a job. Received: one. Start more, or leave "
            "out what is for several of them."
        )
    if not 0 <= process.rank < process.size:
        raise UsageError(
            f"The processes have numbers from 0 to {process.size - 1}. "
            f"Received: {process.rank}."
        )
    return process


def meet(process: Process, seconds: float = MEETING_SECONDS) -> list[str]:
    """Waits for all processes; returns the addresses where they compute.

    Args:
        process: `Process`.
        seconds: float. How long to wait. Defaults to 300 s.

    Raises:
        RunError: with who did not come.
    """
    deadline = time.monotonic() + seconds
    host, port = process.meeting
    print(
        f"Process {process.rank} of {process.size}: waiting up to {seconds:.0f}"
        f" s for the others at {host}:{port}.",
        flush=True,
    )
    if process.rank == 0:
        return _gather(process, deadline)
    return _report(process, deadline)


def _gather(process, deadline):
    """What the chief does: takes all addresses, then tells them to all."""
    host, port = process.meeting
    addresses = {0: f"{host}:{_free_port()}"}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("", port))
        except OSError as error:
            raise RunError(
                f"Process 0 cannot wait at port {port}: {error.strerror}. Is "
                "another job there? Choose another port."
            ) from error
        server.listen()
        others = []
        while len(addresses) < process.size:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection, (peer, _) = server.accept()
            except TimeoutError:
                missing = sorted(set(range(process.size)) - set(addresses))
                raise RunError(
                    f"Not all processes came to {host}:{port} in time. "
                    f"Missing: {', '.join(map(str, missing))} of "
                    f"{process.size}. Were they started, with the same "
                    "variables?"
                ) from None
            stack.callback(connection.close)
            connection.settimeout(10)
            try:
                told = json.loads(connection.makefile().readline())
                rank, address = int(told["rank"]), f"{peer}:{int(told['port'])}"
            except (OSError, ValueError, TypeError, KeyError):
                continue  # a stranger
            if not 0 < rank < process.size:
                continue  # of another job
            addresses[rank] = address
            others.append(connection)
        found = [addresses[rank] for rank in range(process.size)]
        found = list(process.addresses or found)
        for connection in others:
            connection.sendall((json.dumps(found) + "\n").encode())
    return found


def _report(process, deadline):
    """What the others do: say where they are, and wait for all addresses."""
    host, port = process.meeting
    told = {"rank": process.rank, "port": _free_port()}
    while True:
        left = deadline - time.monotonic()
        try:
            with socket.create_connection((host, port), max(left, 0.01)) as to:
                to.settimeout(max(left, 0.01))
                to.sendall((json.dumps(told) + "\n").encode())
                line = to.makefile().readline()
            if line:
                return json.loads(line)
        except OSError:
            pass
        if left <= 0:
            raise RunError(
                f"Process {process.rank} did not meet all others at "
                f"{host}:{port} in time. Were they started, with the same "
                "variables?"
            )
        time.sleep(0.2)


def _free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def _of_tf_config(text):
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        addresses = (*cluster.get("chief", ()), *cluster["worker"])
        rank = int(task["index"])
        if task["type"] == "worker":
            rank += len(cluster.get("chief", ()))
        host, port = addresses[0].rsplit(":", 1)
        if set(cluster) - {"chief", "worker"} or task["type"] not in cluster:
            raise ValueError("jobs are chief and worker")
        return Process(rank, len(addresses), (host, int(port)), addresses)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
    ) as error:
        raise UsageError(
            f"Cannot read TF_CONFIG: {type(error).__name__} {error}. Expected "
            f"JSON such as {EXAMPLE}. Received: {text}"
        ) from error


def _of_slurm(variables):
    hosts = variables["SLURM_STEP_NODELIST"]
    # The first of node[01-04,7],other5.
    first = re.match(r"([^\[,]+)(?:\[([^\],-]+))?", hosts)
    if first is None:
        raise UsageError(
            "Cannot read SLURM_STEP_NODELIST. Expected names such as "
            f"node[01-04]. Received: {hosts!r}."
        )
    port = 20_000 + _integer(variables, "SLURM_JOB_ID") % 20_000
    return Process(
        _integer(variables, "SLURM_PROCID"),
        _integer(variables, "SLURM_STEP_NUM_TASKS"),
        (first[1] + (first[2] or ""), port),
    )


def _of_torchrun(variables):
    if _integer(variables, "LOCAL_WORLD_SIZE", 1) != 1:
        raise UsageError(
            "A process trains on all devices of its machine. Expected one "
            "process on each. Received: LOCAL_WORLD_SIZE="
            f"{variables['LOCAL_WORLD_SIZE']}. Use torchrun --nproc-per-node 1."
        )
    if not variables.get("MASTER_ADDR"):
        raise UsageError(
            "WORLD_SIZE needs MASTER_ADDR beside it, the host of process 0. "
            "Received: none."
        )
    # torchrun itself listens at MASTER_PORT.
    port = _integer(variables, "MASTER_PORT", 29_500) + 1
    return Process(
        _integer(variables, "RANK"),
        _integer(variables, "WORLD_SIZE"),
        (variables["MASTER_ADDR"], port),
    )


def _integer(variables, name, default=None):
    try:
        return int(variables.get(name, default))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Expected a number in the variable {name}. Received: "
            f"{variables.get(name)!r}."
        ) from error
