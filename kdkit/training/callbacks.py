"""Callbacks of a stage: finite losses, seeds, curves."""

import math
import pathlib

import keras
import numpy as np

from kdkit.errors import RunError
from kdkit.late import tf

SEED_STATE = "seed_generator_state"  # in a `keras.random.SeedGenerator`
STEPS_BETWEEN = 100  # points of TensorBoard within an epoch


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
