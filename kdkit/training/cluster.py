"""The processes of a job, as their launcher says who they are."""

import dataclasses
import json
import os
import re

from kdkit.errors import UsageError

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
        on_machine: int. The most processes that a machine has. Defaults to
            `1`.
    """

    rank: int
    size: int
    meeting: tuple[str, int]
    addresses: tuple[str, ...] | None = None
    on_machine: int = 1


def process_of_launcher(variables=os.environ) -> Process:
    """Returns which process this is, as a launcher says it in variables.

    These are TensorFlow's `TF_CONFIG`, or those that `srun` sets
    (`SLURM_PROCID`, `SLURM_STEP_NUM_TASKS`, `SLURM_STEP_NODELIST`,
    `SLURM_STEP_TASKS_PER_NODE`, `SLURM_JOB_ID`), or those of `torchrun` and of
    Kubernetes' PyTorchJob (`RANK`, `WORLD_SIZE`, `LOCAL_WORLD_SIZE`,
    `MASTER_ADDR`, `MASTER_PORT`), whichever is there, in this order.

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
        on_machine=_most_tasks(variables.get("SLURM_STEP_TASKS_PER_NODE", "")),
    )


def _most_tasks(text):
    """The largest of the numbers of a text such as 2(x3),1: three times 2."""
    return max(map(int, re.findall(r"(?:^|,)(\d+)", text)), default=1)


def _of_torchrun(variables):
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
        on_machine=_integer(variables, "LOCAL_WORLD_SIZE", 1),
    )


def _integer(variables, name, default=None):
    try:
        return int(variables.get(name, default))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Expected a number in the variable {name}. Received: "
            f"{variables.get(name)!r}."
        ) from error
