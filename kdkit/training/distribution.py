"""The devices of a run: one, several, or the devices of several machines."""

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import os

import numpy as np

from kdkit import taps
from kdkit.data.stream import WHOLE, Shares
from kdkit.errors import UsageError
from kdkit.io.files import digest_of_text
from kdkit.late import tf

_log = logging.getLogger(__name__)

# The key of collective operations between processes; strategies count from 1.
GROUP_KEY = 1 << 20
INSTANCE_KEYS = itertools.count()


@dataclasses.dataclass(frozen=True)
class Distribution:
    """The replicas of a model that train together."""

    strategy: "tf.distribute.Strategy | None" = None
    shares: Shares = WHOLE
    rank: int = 0
    num_processes: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def scope(self):
        """Returns the context for creating trained variables."""
        if self.strategy is None:
            return contextlib.nullcontext()
        return self.strategy.scope()

    def barrier(self) -> None:
        """Waits until all processes have called this method."""
        self._numbers_of_all(0)

    def require_same(self, what: str, value: dict) -> None:
        """Requires the same value in all processes; raises in all of them."""
        number = int(digest_of_text(json.dumps(value, sort_keys=True)), 16) >> 1
        if len(set(self._numbers_of_all(number))) > 1:
            raise UsageError(f"The processes of a run have different {what}.")

    def _numbers_of_all(self, number):
        """Returns an integer from each process. All must call it."""
        if self.num_processes == 1:
            return [number]
        with tf.device("CPU:0"):
            return tf.raw_ops.CollectiveGatherV2(
                input=np.array([number], "int64"),
                group_size=self.num_processes,
                group_key=GROUP_KEY,
                instance_key=next(INSTANCE_KEYS),
                ordering_token=[],
            ).numpy()

    @contextlib.contextmanager
    def chief_first(self):
        """Runs the block in the chief first, then in the other processes."""
        if not self.is_chief:
            self.barrier()
        yield
        if self.is_chief:
            self.barrier()


ONE_DEVICE = Distribution()


@contextlib.contextmanager
def training_on(training):
    """Opens the devices of a config's `training`."""
    with taps.kept_names():
        yield open_distribution(training.strategy)


def open_distribution(strategy: str | None) -> Distribution:
    """Returns the devices for a setting `strategy`."""
    if strategy == "multi_worker":
        return _multi_worker()
    return _mirrored(tuple(visible_devices())) if strategy else ONE_DEVICE


@functools.cache
def _multi_worker():
    """The strategy for several machines, made before TensorFlow computes."""
    addresses, rank = processes_of_job()
    gpus = tf.config.get_visible_devices("GPU")
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": addresses}),
            task_type="worker",
            task_id=rank,
            rpc_layer="grpc",
            # Without this number, the strategy uses a CPU.
            num_accelerators={"GPU": len(gpus)},
        )
    )
    total = strategy.num_replicas_in_sync
    count = total // len(addresses)
    _log.info(
        f"Process {rank} of {len(addresses)} trains with {count} of {total} "
        "replicas."
    )
    shares = Shares(rank * count, count, total)
    return Distribution(strategy, shares, rank, len(addresses))


def processes_of_job():
    """The addresses of all processes, and this one's number."""
    resolvers = tf.distribute.cluster_resolver
    if "TF_CONFIG" in os.environ:
        resolver = resolvers.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().as_dict()
        addresses = [*jobs.get("chief", ()), *jobs["worker"]]
        is_worker = resolver.task_type == "worker"
        before = len(addresses) - len(jobs["worker"])
        return addresses, resolver.task_id + is_worker * before
    # One process a machine, whatever its devices are.
    resolver = resolvers.SlurmClusterResolver(
        gpus_per_node=1, gpus_per_task=1, auto_set_gpu=False
    )
    addresses = resolver.cluster_spec().as_dict()["worker"]
    # TensorFlow sorts the machines: node10 comes before node2.
    hosts = [address.rpartition(":")[0] for address in addresses]
    return addresses, hosts.index(os.environ["SLURMD_NODENAME"])


@functools.cache
def _mirrored(devices):
    """One strategy per process, because it owns the keys of collectives."""
    _log.info(f"{len(devices)} devices train together: {', '.join(devices)}.")
    on_cpu = devices[0].startswith("CPU")
    return Distribution(
        tf.distribute.MirroredStrategy(
            devices,
            tf.distribute.ReductionToOneDevice() if on_cpu else None,
        ),
        Shares(count=len(devices), total=len(devices)),
    )


def visible_devices() -> list[str]:
    """Returns the names of TensorFlow's GPUs, or else its logical CPUs."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    found = tf.config.list_logical_devices(kind)
    return [f"{kind}:{number}" for number in range(len(found))]


def use_devices(number: int) -> None:
    """Limits TensorFlow to a number of devices, before it computes."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * number
        )
        return
    if not 0 < number <= len(gpus):
        raise UsageError(f"Expected 1 to {len(gpus)} devices.")
    tf.config.set_visible_devices(gpus[:number], "GPU")
