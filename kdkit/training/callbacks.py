"""Callbacks of a stage: finite losses, seeds, curves, progress."""

import collections
import dataclasses
import logging
import math
import pathlib
import statistics
import time
from collections.abc import Iterable

import keras
import numpy as np

from kdkit.errors import RunError
from kdkit.io.machine import duration
from kdkit.late import tf

_log = logging.getLogger(__name__)

SEED_STATE = "seed_generator_state"  # in a `keras.random.SeedGenerator`
STEPS_BETWEEN = 100  # points of TensorBoard within an epoch
SECONDS_BETWEEN = 1.0  # changes of the display
STEPS_KEPT = 500  # last steps whose times estimate the time left
COMPILED = 10  # a step that takes so many times longer was compiled


class StopAtNonFinite(keras.callbacks.Callback):
    """Stops training when a loss is NaN or infinite, and names the loss."""

    def __init__(self, stage, first_step=0):
        super().__init__()
        self._stage = stage
        self._step = first_step

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        broken = [
            name for name, value in logs.items() if not math.isfinite(value)
        ]
        if broken:
            # Name the terms that are not finite instead of the total.
            terms = [name for name in broken if name != "loss"] or broken
            raise RunError(
                f"{', '.join(terms)} became {logs[terms[0]]} in stage "
                f"{self._stage!r} at step {self._step}. Try a smaller "
                "learning_rate."
            )


class SeedEpochs(keras.callbacks.Callback):
    """Makes an epoch's random numbers a function of its number and seeds."""

    def __init__(self, *seeds):
        super().__init__()
        self._seeds = seeds

    def on_epoch_begin(self, epoch, logs=None):
        states = [
            variable
            for variable in self.model.variables
            if variable.name == SEED_STATE
        ]
        for number, state in enumerate(states):
            sequence = np.random.SeedSequence([*self._seeds, epoch, number])
            drawn = sequence.generate_state(state.shape[0], "uint32")
            state.assign((drawn >> 1).astype(state.dtype))


class Curves(keras.callbacks.Callback):
    """Writes losses and metrics for TensorBoard.

    A run that is continued writes the steps after its checkpoint again.
    """

    def __init__(self, directory: pathlib.Path, first_step: int):
        super().__init__()
        self._step = first_step
        self._writers = {
            part: tf.summary.create_file_writer(str(directory / part))
            for part in ("train", "validation")
        }

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        if self._step % STEPS_BETWEEN == 0:
            self._write("batch", logs, self._step)

    def write_epoch(self, epoch: int, logs: dict) -> None:
        """Writes the points of an epoch."""
        self._write("epoch", logs, epoch - 1)

    def on_train_end(self, logs=None):
        for writer in self._writers.values():
            writer.close()

    def _write(self, what, logs, step):
        for name, value in logs.items():
            writer = self._writers[
                "validation" if name.startswith("val_") else "train"
            ]
            with writer.as_default(), tf.summary.record_if(True):
                tag = f"{what}_{name.removeprefix('val_')}"
                tf.summary.scalar(tag, float(value), step)


@dataclasses.dataclass(frozen=True)
class StepProgress:
    """Where a stage is, for handlers that draw it."""

    title: str
    epoch: int
    num_epochs: int
    step: int
    steps_per_epoch: int
    losses: str
    dev: str
    doing: str
    seconds_left: float | None


class Progress(keras.callbacks.Callback):
    """Logs each epoch and, at the level `DEBUG`, the steps within it."""

    def __init__(self, title, num_epochs, steps_per_epoch, source):
        super().__init__()
        self._title, self._metric = title, source.metric
        self._num_epochs, self._steps_per_epoch = num_epochs, steps_per_epoch
        self._best_of = max if source.larger_is_better else min
        self._seconds = collections.deque(maxlen=STEPS_KEPT)
        self._seconds_on_dev, self._on_dev = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._start = self._shown = self._last_step = time.monotonic()
        if not self._seconds:
            self._show(0, {}, "compiling the first step")

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        self._seconds.append(now - self._last_step)
        self._last_step = now
        is_last = batch + 1 == self._steps_per_epoch
        if is_last or now - self._shown >= SECONDS_BETWEEN:
            self._shown = now
            self._show(batch + 1, logs, "measuring on dev" if is_last else "")

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        self._seconds_on_dev.append(now - self._last_step)
        self._on_dev.append(logs[f"val_{self._metric}"])
        train, dev = dict(logs), {}
        rate = in_words({"learning_rate": train.pop("learning_rate")})
        for name in logs:
            if name.startswith("val_"):
                dev[name.removeprefix("val_")] = train.pop(name)
        count, taken = self._num_epochs, duration(now - self._start)
        done = f"{self._title}: epoch {epoch + 1}/{count}, done in {taken}: "
        brief = in_words({"loss": train["loss"]})
        main = in_words({self._metric: self._on_dev[-1]})
        _log.info(
            f"{done}{in_words(train, 'loss')}; dev: "
            f"{in_words(dev, self._metric)}; {rate}",
            extra={
                "brief": f"{done}{brief}; dev: {main}",
                "ends_progress": epoch + 1 == count,
            },
        )

    def _show(self, step, logs, doing):
        """Logs where the stage is."""
        dev = ""
        if self._on_dev:
            best = self._best_of(self._on_dev)
            dev = f"{self._metric} {self._on_dev[-1]:.4f} (best {best:.4f})"
        progress = StepProgress(
            self._title,
            self._epoch + 1,
            self._num_epochs,
            step,
            self._steps_per_epoch,
            in_words(logs, "loss"),
            dev,
            doing,
            self._seconds_left(step),
        )
        _log.debug(f"{self._title}: step {step}", extra={"progress": progress})

    def _seconds_left(self, step):
        """The seconds left in the stage, `None` if unknown."""
        seconds = seconds_of_step(self._seconds)
        if seconds is None:
            return None
        epochs = self._num_epochs - self._epoch
        left = seconds * (epochs * self._steps_per_epoch - step)
        if self._seconds_on_dev:
            left += epochs * statistics.fmean(self._seconds_on_dev)
        return left or None


def in_words(logs: dict[str, float], first: str = "") -> str:
    """Returns losses and metrics as one line of text, one of them first."""
    ordered = sorted(logs, key=lambda name: name != first)
    return ", ".join(f"{name} {logs[name]:.4g}" for name in ordered)


def seconds_of_step(seconds: Iterable[float]) -> float | None:
    """Returns the mean time of steps, without those that were compiled."""
    ordered = sorted(seconds)
    if len(ordered) < 2:
        return None
    limit = COMPILED * ordered[(len(ordered) - 1) // 4]
    return statistics.fmean(one for one in ordered if one <= limit)
