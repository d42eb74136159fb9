"""Logs where a stage is: a line for each epoch, and a display's numbers."""

import collections
import dataclasses
import logging
import statistics
import time
from collections.abc import Iterable

import keras

from kdkit.io.machine import duration

_log = logging.getLogger(__name__)

SECONDS_BETWEEN = 1.0  # changes of the display
STEPS_KEPT = 500  # last steps whose times estimate the time left
COMPILED = 10  # a step that takes so many times longer was compiled


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
