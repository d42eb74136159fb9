"""The devices of a run: one, several, or the devices of several machines."""

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import re

import numpy as np

from kdkit import taps
from kdkit.backends import tf
from kdkit.data import WHOLE, Shares
from kdkit.errors import RunError, UsageError
from kdkit.io.signals import StopSignals, take_sigterm_back
from kdkit.recipes.stages import Stage
from kdkit.settings import differences
from kdkit.training.cluster import process_of_launcher, wait_for_all
from kdkit.training.model_settings import MULTI_WORKER

_log = logging.getLogger(__name__)

# In `tf.errors`: the errors of a collective operation when a process is lost.
LOST = (
    "UnavailableError",
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
)
# These errors may also come from a failure of this process alone.
MAY_BE_OWN = ("FailedPreconditionError", "InternalError")
SAME_FIX = "Run the same command with the same files in all processes."
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

    @property
    def part(self) -> tuple[int, int] | None:
        """This process's part of shared work: part i, from 0, of n."""
        if self.num_processes == 1:
            return None
        return self.rank, self.num_processes

    def scope(self):
        """Returns the context for creating trained variables."""
        if self.strategy is None:
            return contextlib.nullcontext()
        return self.strategy.scope()

    def barrier(self) -> None:
        """Waits until all processes have called this method."""
        self._rows_of_all([0])

    def any_of_all(self, flag: bool) -> bool:
        """Returns whether any process has a flag set. All must call it."""
        return bool(self._rows_of_all([flag]).any())

    def require_same(self, what: str, value: dict, fix: str = SAME_FIX) -> None:
        """Requires the same value in all processes; raises in all of them."""
        if self.num_processes == 1:
            return
        first, *others = map(json.loads, self.texts_of_all(json.dumps(value)))
        found = [
            f"  process {rank}: {line}"
            for rank, other in enumerate(others, 1)
            for line in differences(first, other)
        ]
        if found:
            raise UsageError(
                f"The processes of a run need the same {what}. Received "
                "(process 0 -> another one):\n" + "\n".join(found) + f"\n{fix}"
            )

    def texts_of_all(self, text: str) -> list[str]:
        """Returns the texts of all processes, by rank. All must call it."""
        signs = list(text.encode())
        lengths = self._rows_of_all([len(signs)])[:, 0]
        signs += [0] * (max(lengths) - len(signs))
        rows = self._rows_of_all(signs)
        return [
            bytes(row[:length].tolist()).decode()
            for row, length in zip(rows, lengths, strict=True)
        ]

    def _rows_of_all(self, row):
        """Returns an array of integers from each process."""
        if self.num_processes == 1:
            return np.array([row])
        with tf.device("CPU:0"):
            return tf.raw_ops.CollectiveGatherV2(
                input=np.array([row], "int64"),
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

    def check(self, settings) -> None:
        """Requires at least one example per replica in each stage's batches."""
        small = [
            f"{stage.name} {stage.batch_size}"
            for stage in _stages_in(settings)
            if stage.batch_size < self.shares.total
        ]
        if small:
            raise UsageError(
                "Each replica needs an example of every batch. Expected a "
                f"batch_size of at least {self.shares.total}, the number of "
                f"replicas. Received: {', '.join(dict.fromkeys(small))}. Set a "
                "larger stages.….batch_size, or use fewer devices."
            )


ONE_DEVICE = Distribution()


@contextlib.contextmanager
def training_on(settings):
    """Opens a run's devices, and reports a lost process as an error."""
    distribution = open_distribution(settings.strategy)
    distribution.check(settings)
    if distribution.num_processes == 1:
        with taps.kept_names():
            yield distribution
        return
    with taps.kept_names(), StopSignals() as stop, stop.at_once():
        try:
            yield distribution
        # A signal raised while TensorFlow raises becomes a RuntimeError.
        except (RuntimeError, *_errors(LOST)) as error:
            stop.raise_if_requested()
            if isinstance(error, _errors(LOST)):
                _raise_if_lost(error, distribution)
            raise


def _errors(names):
    return tuple(getattr(tf.errors, name) for name in names)


def _raise_if_lost(error, distribution):
    """Raises a `RunError`, unless this process may have caused the error."""
    tasks = sorted(set(re.findall(r"task:(\d+)", error.message)))
    others = [task for task in tasks if task != str(distribution.rank)]
    if not others and isinstance(error, _errors(MAY_BE_OWN)):
        return
    raise RunError(
        f"Process {distribution.rank} of {distribution.num_processes}: "
        f"another process ({', '.join(others) or 'unknown'}) stopped or "
        "cannot be reached. See its output. The same command, run again in "
        "all processes, continues after the last finished epoch. "
        f"TensorFlow's error: {error.message.strip().splitlines()[0]}"
    ) from error


def open_distribution(strategy: str | None) -> Distribution:
    """Returns the devices for a setting `strategy`."""
    if strategy is None:
        return ONE_DEVICE
    if strategy == MULTI_WORKER:
        return _multi_worker()
    devices = visible_devices()
    if len(devices) == 1:
        raise UsageError(
            "The strategy 'mirrored' is for several devices. Received: one, "
            f"{devices[0]}. Remove it, or split the CPU of a machine "
            "without GPUs: kdkit VERB --devices 2."
        )
    return _mirrored(tuple(devices))


@functools.cache
def _multi_worker():
    """The strategy for several machines, made before TensorFlow computes."""
    process = process_of_launcher()
    # Without this number, the strategy uses a CPU.
    num_gpus = len(tf.config.get_visible_devices("GPU"))
    wait_for_all(process)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": process.addresses}),
                task_type="worker",
                task_id=process.rank,
                rpc_layer="grpc",
                num_accelerators={"GPU": num_gpus},
            )
        )
    except RuntimeError as error:
        raise UsageError(
            "The strategy for several machines must be opened before "
            "TensorFlow computes anything. Pass --strategy, not --set; in "
            "Python, call kdkit.training.distribution.open_distribution "
            "first. Received: "
            f"{error}"
        ) from error
    except _errors(LOST) as error:
        raise RunError(
            f"Process {process.rank} of {process.size}: TensorFlow could not "
            f"connect the processes at {', '.join(process.addresses)}. Check "
            "that no process stopped and that they can reach each other. "
            f"TensorFlow's error: {error.message.strip().splitlines()[0]}"
        ) from error
    # TensorFlow has replaced the signal handler.
    take_sigterm_back()
    distribution = Distribution(
        strategy, rank=process.rank, num_processes=process.size
    )
    distribution.require_same(
        "devices",
        {"GPUs": num_gpus},
        "Choose as many GPUs on each machine with --devices.",
    )
    total = strategy.num_replicas_in_sync
    count = total // process.size
    _log.info(
        f"Process {process.rank} of {process.size} trains with {count} of "
        f"{total} replicas.",
    )
    return dataclasses.replace(
        distribution, shares=Shares(process.rank * count, count, total)
    )


@functools.cache
def _mirrored(devices):
    """One strategy per process, because it owns the keys of collectives."""
    _log.info(
        f"{len(devices)} devices train together: {', '.join(devices)}.",
    )
    on_cpu = devices[0].startswith("CPU")
    return Distribution(
        tf.distribute.MirroredStrategy(
            devices,
            tf.distribute.ReductionToOneDevice() if on_cpu else None,
        ),
        Shares(count=len(devices), total=len(devices)),
    )


def _stages_in(value):
    """Yields the stages of a run and its inner runs that count examples."""
    if isinstance(value, Stage):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from _stages_in(entry)
    elif dataclasses.is_dataclass(value) and not getattr(
        value, "reads_sentences", False
    ):
        for entry in vars(value).values():
            yield from _stages_in(entry)


def visible_devices() -> list[str]:
    """Returns the names of TensorFlow's GPUs, or else its logical CPUs."""
    for kind in ("GPU", "CPU"):
        found = tf.config.list_logical_devices(kind)
        if found:
            return [f"{kind}:{number}" for number in range(len(found))]
    return []


def use_devices(number: int, splits_cpu: bool = True) -> None:
    """Limits TensorFlow to a number of devices."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not splits_cpu:
        raise UsageError(
            "With several machines, a CPU is always one device. Received: "
            f"--devices {number}. Remove it."
        )
    if number < 1 or gpus and number > len(gpus):
        raise UsageError(
            f"Expected from 1 to {len(gpus) or 'any number of'} devices. "
            f"Received: {number}. Choose another number with --devices."
        )
    try:
        if gpus:
            tf.config.set_visible_devices(gpus[:number], "GPU")
        else:
            (cpu,) = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * number
            )
    except RuntimeError as error:
        raise UsageError(
            "The number of devices must be set before TensorFlow computes "
            "anything. "
            f"Received: {error}"
        ) from error
