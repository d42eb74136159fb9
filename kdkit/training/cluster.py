"""The processes of a job: their addresses, and a wait until all started."""

import dataclasses
import logging
import os
import socket
import time

from kdkit.backends import tf
from kdkit.errors import RunError, UsageError

_log = logging.getLogger(__name__)

START_SECONDS = 300  # for all processes to start
PROBE_SECONDS = 2  # for one connection
EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": '
    '"worker", "index": 0}}'
)
# Environment variables with a process's number and the number of processes.
NUMBERED_BY = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("RANK", "WORLD_SIZE"),
)


@dataclasses.dataclass(frozen=True)
class Process:
    """This process of a job, whose processes train together."""

    rank: int
    addresses: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of processes."""
        return len(self.addresses)


def process_of_launcher() -> Process:
    """Returns this process, from the launcher's environment variables."""
    if os.environ.get("TF_CONFIG"):
        process = _of_tf_config(os.environ["TF_CONFIG"])
    elif "SLURM_STEP_NODELIST" in os.environ:
        process = _of_slurm()
    else:
        others = [name for name in ("RANK", "WORLD_SIZE") if name in os.environ]
        received = " and ".join(others) or "neither"
        raise UsageError(
            "Training on several machines needs the addresses of all "
            f"processes. Expected srun's variables or TF_CONFIG={EXAMPLE!r}. "
            f"Received: {received}. Start the command with srun, or set "
            "TF_CONFIG for each process."
        )
    if process.size == 1:
        raise UsageError(
            "A job needs at least 2 processes. Received: 1. Start more, or "
            "remove the option for several processes."
        )
    return process


def part_of_launcher() -> tuple[int, int]:
    """Returns this process's part of shared work: i, from 0, and n."""
    if os.environ.get("TF_CONFIG"):
        process = process_of_launcher()
        return process.rank, process.size
    for names in NUMBERED_BY:
        if all(name in os.environ for name in names):
            texts = [os.environ[name] for name in names]
            if all(map(str.isdecimal, texts)):
                rank, size = map(int, texts)
                if rank < size:
                    return rank, size
            raise UsageError(
                "Expected a number and a larger number in "
                f"{' and '.join(names)}. "
                f"Received: {' and '.join(map(repr, texts))}."
            )
    raise UsageError(
        "The part of this process is unknown. Expected TF_CONFIG, srun's "
        "variables, or RANK and WORLD_SIZE. Received: none of them."
    )


def wait_for_all(process: Process, seconds: float = START_SECONDS) -> None:
    """Waits until every process of a job has started."""
    missing = dict(enumerate(process.addresses))
    own = missing.pop(process.rank)
    _log.info(
        f"Process {process.rank} of {process.size}: waiting up to {seconds:.0f}"
        " s until all have started.",
    )
    deadline = time.monotonic() + seconds
    with _listen(own, process):
        while missing:
            for rank, address in list(missing.items()):
                if _answers(address):
                    del missing[rank]
            if missing and time.monotonic() > deadline:
                names = ", ".join(
                    f"{rank} ({address})" for rank, address in missing.items()
                )
                raise RunError(
                    f"Process {process.rank} of {process.size} waited "
                    f"{seconds:.0f} s. Missing: process {names}. Start all "
                    "processes with the same cluster, on machines that can "
                    "connect to each other."
                )
            if missing:
                time.sleep(0.2)


def _listen(address, process):
    port = _port(address)
    try:
        return socket.create_server(("", port), backlog=2 * process.size)
    except OSError as error:
        raise RunError(
            f"Process {process.rank} cannot use port {port}: {error.strerror}. "
            "Another job may use it. Choose another port."
        ) from error


def _answers(address):
    """Whether a process listens at an address."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        with socket.create_connection((host, _port(address)), PROBE_SECONDS):
            return True
    except OSError:
        return False


def _port(address):
    return int(address.rpartition(":")[2])


def _of_tf_config(text):
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().as_dict()
        chief = jobs.pop("chief", [])
        addresses = (*chief, *jobs.pop("worker"))
        rank = int(resolver.task_id)
        if resolver.task_type == "worker":
            rank += len(chief)
        elif resolver.task_type != "chief" or not chief:
            raise ValueError("the task is not a chief or worker of the cluster")
        if jobs:
            raise ValueError(f"{', '.join(jobs)} is not a chief or worker")
        addresses[rank]  # noqa: B018
        list(map(_port, addresses))
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
    return Process(rank, addresses)


def _of_slurm():
    job = os.environ.get("SLURM_JOB_ID", "")
    # Each job has its own port, so that jobs may share machines.
    port = 20_000 + (int(job) if job.isdecimal() else 0) % 20_000
    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=port,
            # One process per machine, whatever its devices are.
            gpus_per_node=1,
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        addresses = tuple(resolver.cluster_spec().as_dict()["worker"])
    except (RuntimeError, ValueError, KeyError) as error:
        raise UsageError(
            "A process trains on all devices of its machine. Expected one "
            "Slurm task on each machine. Received: SLURM_STEP_NODELIST="
            f"{os.environ['SLURM_STEP_NODELIST']!r}, SLURM_STEP_TASKS_PER_NODE="
            f"{os.environ.get('SLURM_STEP_TASKS_PER_NODE')!r} ({error}). Use "
            "srun --ntasks-per-node 1."
        ) from error
    # The resolver sorts the machines: node10 comes before node2.
    hosts = [address.rpartition(":")[0] for address in addresses]
    name = os.environ.get("SLURMD_NODENAME")
    rank = hosts.index(name) if name in hosts else resolver.task_id
    return Process(rank, addresses)
