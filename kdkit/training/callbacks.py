"""Callbacks of a stage: progress, finite losses, checkpoints, curves."""

import collections
import dataclasses
import logging
import math
import pathlib
import time
from collections.abc import Iterable

import keras
import numpy as np

from kdkit.errors import RunError
from kdkit.io.machine import duration
from kdkit.late import tf

_log = logging.getLogger(__name__)

SEED_STATE = "seed_generator_state"  # in a `keras.random.SeedGenerator`
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


@dataclasses.dataclass(frozen=True)
class StepProgress:
    """Where a stage is, for handlers that draw it."""

    title: str
    epoch: int
    num_epochs: int
    step: int
    steps_per_epoch: int
    losses: dict[str, float]
    dev: str
    doing: str
    seconds_left: float | None

    def __str__(self):
        parts = [
            f"{self.title}: epoch {self.epoch}/{self.num_epochs}",
            f"step {self.step}/{self.steps_per_epoch}",
        ]
        if self.doing:
            parts.append(self.doing)
        if self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        text = ", ".join(parts)
        return f"{text}: {in_words(self.losses)}" if self.losses else text


class Progress(keras.callbacks.Callback):
    """Logs each epoch and, at the level `DEBUG`, the steps within it."""

    def __init__(
        self,
        title,
        num_epochs,
        steps_per_epoch,
        metric=None,
        larger_is_better=True,
        seconds_between=1.0,
    ):
        super().__init__()
        self._title = title
        self._num_epochs = num_epochs
        self._steps_per_epoch = steps_per_epoch
        self._metric = metric
        self._best_of = max if larger_is_better else min
        self._seconds_between = seconds_between
        self._seconds = collections.deque(maxlen=STEPS_KEPT)
        self._seconds_on_dev = []
        self._on_dev = []

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._start = self._last_record = self._last_step = time.monotonic()
        if not self._seconds:
            self._log_step(0, {}, "compiling the first step")

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        self._seconds.append(now - self._last_step)
        self._last_step = now
        done = batch + 1
        if done == self._steps_per_epoch:
            self._log_step(done, logs, "measuring on dev")
        elif now - self._last_record >= self._seconds_between:
            self._last_record = now
            self._log_step(done, logs)

    def on_epoch_end(self, epoch, logs=None):
        now = time.monotonic()
        self._seconds_on_dev.append(now - self._last_step)
        if f"val_{self._metric}" in logs:
            self._on_dev.append(logs[f"val_{self._metric}"])
        done = (
            f"{self._title}: epoch {epoch + 1}/{self._num_epochs}, done in "
            f"{duration(now - self._start)}: "
        )
        main = {name: logs[name] for name in ("loss",) if name in logs}
        extra = {"brief": f"{done}{in_words(main)}{self._last_on_dev()}"}
        if epoch + 1 == self._num_epochs:
            extra["ends_progress"] = True
        _log.info(f"{done}{_epoch_in_words(logs, self._metric)}", extra=extra)

    def _last_on_dev(self):
        if not self._on_dev:
            return ""
        return f"; dev: {self._metric} {self._on_dev[-1]:.4f}"

    def _log_step(self, done, logs, doing=""):
        if not _log.isEnabledFor(logging.DEBUG):
            return
        dev = ""
        if self._on_dev:
            best = self._best_of(self._on_dev)
            dev = f"{self._metric} {self._on_dev[-1]:.4f} (best {best:.4f})"
        progress = StepProgress(
            title=self._title,
            epoch=self._epoch + 1,
            num_epochs=self._num_epochs,
            step=done,
            steps_per_epoch=self._steps_per_epoch,
            losses=_loss_first(logs),
            dev=dev,
            doing=doing,
            seconds_left=self._seconds_left(done),
        )
        _log.debug(str(progress), extra={"progress": progress})

    def _seconds_left(self, done):
        """The seconds left in the stage, `None` if unknown."""
        seconds = seconds_of_step(self._seconds)
        if seconds is None:
            return None
        epochs = self._num_epochs - self._epoch
        left = seconds * (epochs * self._steps_per_epoch - done)
        if self._seconds_on_dev:
            num_known = len(self._seconds_on_dev)
            left += epochs * sum(self._seconds_on_dev) / num_known
        return left or None


def in_words(logs: dict[str, float]) -> str:
    """Returns losses and metrics as one line of text."""
    return ", ".join(f"{name} {value:.4g}" for name, value in logs.items())


def _loss_first(logs):
    return {"loss": logs["loss"], **logs} if "loss" in logs else dict(logs)


def _epoch_in_words(logs, metric):
    """The losses, then dev with its main metric first, then the rest."""
    logs = _loss_first(logs)
    dev = {
        name.removeprefix("val_"): value
        for name, value in logs.items()
        if name.startswith("val_")
    }
    if metric in dev:
        dev = {metric: dev[metric], **dev}
    rate = {name: logs[name] for name in ("learning_rate",) if name in logs}
    training = {
        name: value
        for name, value in logs.items()
        if not name.startswith("val_") and name not in rate
    }
    parts = [in_words(training)]
    if dev:
        parts.append(f"dev: {in_words(dev)}")
    if rate:
        parts.append(in_words(rate))
    return "; ".join(parts)


def seconds_of_step(seconds: Iterable[float]) -> float | None:
    """Returns the mean time of steps, without those that were compiled."""
    ordered = sorted(seconds)
    if len(ordered) < 2:
        return None
    limit = COMPILED * ordered[(len(ordered) - 1) // 4]
    computed = [one for one in ordered if one <= limit]
    return sum(computed) / len(computed)


class Checkpointing(keras.callbacks.Callback):
    """Saves at intervals within an epoch, on signals, and after each epoch."""

    def __init__(self, save_step, finish_epoch, minutes, stop, seconds_before):
        super().__init__()
        self._save_step = save_step
        self._finish_epoch = finish_epoch
        self._seconds_between = 60 * minutes
        self._stop = stop
        self._before = seconds_before

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.monotonic() - self._before
        self._before = 0.0
        self._last_save = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        since = time.monotonic() - self._last_save
        if self._stop.is_requested or since >= self._seconds_between:
            self._save_step(batch + 1, self._seconds())
            self._last_save = time.monotonic()
            self._stop.raise_if_requested()

    def on_epoch_end(self, epoch, logs=None):
        self._finish_epoch(epoch + 1, logs, self._seconds)
        self._stop.raise_if_requested()

    def _seconds(self):
        return time.monotonic() - self._start


class Curves(keras.callbacks.Callback):
    """Writes losses and metrics for TensorBoard.

    A run that is continued writes the steps after its checkpoint again.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        first_step: int,
        steps_between: int = 100,
    ):
        super().__init__()
        self._step = first_step
        self._steps_between = steps_between
        self._writers = {
            part: tf.summary.create_file_writer(str(directory / part))
            for part in ("train", "validation")
        }

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        if self._step % self._steps_between == 0:
            for name, value in logs.items():
                self._write("train", f"batch_{name}", value, self._step)

    def write_epoch(self, epoch: int, logs: dict) -> None:
        """Writes the points of an epoch."""
        for name, value in logs.items():
            part = "validation" if name.startswith("val_") else "train"
            name = name.removeprefix("val_")
            self._write(part, f"epoch_{name}", value, epoch - 1)

    def on_train_end(self, logs=None):
        for writer in self._writers.values():
            writer.close()

    def _write(self, part, tag, value, step):
        with self._writers[part].as_default(), tf.summary.record_if(True):
            tf.summary.scalar(tag, float(value), step)
