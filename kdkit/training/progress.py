"""Logs where a stage is: a line for each epoch, and a display's numbers."""

import collections
import dataclasses
import logging
import time
from collections.abc import Iterable

import keras

from kdkit.io.machine import duration

_log = logging.getLogger(__name__)

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
    losses: dict[str, float]
    dev: str
    doing: str
    seconds_left: float | None


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
        title = f"{self._title}: epoch {epoch + 1}/{self._num_epochs}"
        done = f"{title}, done in {duration(now - self._start)}: "
        brief = f"{done}{in_words({'loss': logs['loss']})}"
        on_dev = logs.get(f"val_{self._metric}")
        if on_dev is not None:
            self._on_dev.append(on_dev)
            brief += f"; dev: {self._metric} {on_dev:.4f}"
        extra = {"brief": brief}
        if epoch + 1 == self._num_epochs:
            extra["ends_progress"] = True
        _log.info(f"{done}{_epoch_in_words(logs, self._metric)}", extra=extra)

    def _log_step(self, done, logs, doing=""):
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
        _log.debug(f"{self._title}: step {done}", extra={"progress": progress})

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
    """The losses, then dev with its main metric first, then the rate."""
    parts = {"": {}, "dev: ": {}}
    for name, value in _loss_first(logs).items():
        where = "dev: " if name.startswith("val_") else ""
        parts[where][name.removeprefix("val_")] = value
    rate = {"learning_rate": parts[""].pop("learning_rate")}
    if metric in parts["dev: "]:
        parts["dev: "] = {metric: parts["dev: "][metric], **parts["dev: "]}
    texts = [f"{where}{in_words(some)}" for where, some in parts.items()]
    return "; ".join([*texts, in_words(rate)])


def seconds_of_step(seconds: Iterable[float]) -> float | None:
    """Returns the mean time of steps, without those that were compiled."""
    ordered = sorted(seconds)
    if len(ordered) < 2:
        return None
    limit = COMPILED * ordered[(len(ordered) - 1) // 4]
    computed = [one for one in ordered if one <= limit]
    return sum(computed) / len(computed)
