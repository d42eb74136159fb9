"""Trains a model by its stages, from any position to their end."""

import contextlib
import dataclasses
import functools
import logging
import time
import zlib

import keras
import numpy as np
from keras import ops

from kdkit.config.runs import Training
from kdkit.data.stream import make_forward
from kdkit.io.signals import STOPS, StopSignals
from kdkit.models.heads import (
    backbone_of,
    frozen_pooler,
    in_policy,
    untrained_head,
)
from kdkit.quantization import RANGES_FILE, FakeQuantization, read_quantization
from kdkit.recipes.stages import Stage
from kdkit.taps import number_later
from kdkit.training.caching import TeacherCaches
from kdkit.training.callbacks import (
    Curves,
    Progress,
    SeedEpochs,
    StopAtNonFinite,
)
from kdkit.training.checkpoints import StageCheckpoints, running_values
from kdkit.training.distribution import ONE_DEVICE, Distribution
from kdkit.training.source import Source
from kdkit.training.trainers import Loop, make_trainer

_log = logging.getLogger(__name__)
CALIBRATION_ROWS = 256
CALIBRATION_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Arm:
    """Consecutive stages that train one model on one source."""

    name: str
    model: keras.Model
    teachers: object
    source: Source
    stages: tuple[Stage, ...]
    training: Training
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    distribution: Distribution = ONE_DEVICE
    measured: keras.Model | None = None

    @property
    def result(self) -> keras.Model:
        """The model that is measured and saved."""
        return self.model if self.measured is None else self.measured

    @property
    def forward(self):
        """The result's forward pass in float32, with its current weights."""
        copy, forward = self._measured
        if copy is not self.result:
            copy.set_weights(self.result.get_weights())
        return forward

    def quantize(self, quantization: FakeQuantization) -> None:
        """Lets the model round from now on, also where it is measured."""
        quantization.apply(self.model)
        vars(self).pop("_measured", None)  # traced without rounding

    @functools.cached_property
    def _measured(self):
        """The result, or its copy in float32, with its forward pass."""
        copy = in_policy(self.result, "float32")
        return copy, make_forward(copy)

    def run(self, log):
        """Runs the unfinished stages.

        Args:
            log: as of `StageRun`; its `best` and `untrained` return the result.
        """
        if not self.stages:
            return log.untrained(self.source.measure(self.forward, {}))
        if self.caches is not None:
            self.caches.expect(self.stages, self.model)
        # Only a task's classifier reads the pooler.
        on_task = any(stage.data == "task" for stage in self.stages)
        encoder = backbone_of(self.model)
        with contextlib.nullcontext() if on_task else frozen_pooler(encoder):
            for stage in self.stages:
                last = StageRun(log, self, stage)
                last.run()
            untrained = []
            if not any(stage.trains_head for stage in self.stages):
                untrained = untrained_head(self.model)  # layers of the head
        return log.best(stage.name, last.final_epoch, tuple(untrained))


class StageRun(keras.callbacks.Callback):
    """A stage of an arm.

    Args:
        log: an object with the folders `checkpoints` and `tensorboard`, and a
            method that logs a finished epoch, as `kdkit.runs.log.ArmLog`.
        arm: `Arm`.
        stage: `Stage`.
    """

    def __init__(self, log, arm, stage):
        super().__init__()
        self._log = log
        self.arm = arm
        self.stage = stage
        self._source = arm.source
        if arm.source.without_teacher is not None and not stage.objectives:
            self._source = arm.source.without_teacher()
        self._folder = log.checkpoints / stage.name
        self._title = f"{arm.name}, {stage.name}"
        self.checkpoints = StageCheckpoints(self._folder)

    @property
    def final_epoch(self) -> int:
        """The epoch of the stage's final weights."""
        position = self.checkpoints.position
        return position.best_epoch if self.stage.keep_best else position.epoch

    def run(self) -> None:
        """Trains from the last checkpoint on, or loads a finished stage."""
        arm, distribution = self.arm, self.arm.distribution
        if self.stage.quantize is not None:
            self._quantize()
        features = None
        if arm.caches is not None and self.stage.objectives:
            features = arm.caches.features(self.stage, arm.model)
        if self.checkpoints.is_finished:
            _log.info(f"{self._title}: finished earlier, weights loaded.")
            self.checkpoints.restore_final(arm.model)
            if distribution.is_chief:
                self.checkpoints.clean()  # the process may have died before
        else:
            self._train(features)
            with distribution.chief_first():
                if distribution.is_chief:
                    self.checkpoints.finish(arm.model, self.stage.keep_best)
                else:
                    self.checkpoints.restore_final(arm.model)

    def _train(self, features):
        """Trains from the newest checkpoint to the last epoch."""
        arm, stage, distribution = self.arm, self.stage, self.arm.distribution
        position = self.checkpoints.position
        stream = self._source.training_stream(
            stage, arm.training.seed, features, distribution.shares
        )
        self._steps_per_epoch = stream.steps_per_epoch
        self._dev = self._source.validation_stream(
            stage, features, distribution.shares
        ).evaluation()
        # Projections start with the same weights, whether or not earlier stages
        # ran in this process.
        seed = zlib.crc32(f"{arm.training.seed} {stage.name}".encode())
        keras.utils.set_random_seed(seed)
        number_later()
        with distribution.scope():
            self._trainer = make_trainer(
                arm,
                stage,
                self._source,
                stage.epochs * stream.batches_per_epoch,
            )
        running = self.checkpoints.restore(self._trainer)
        if position.epoch or position.step:
            _log.info(f"{self._title}: continuing from {position.name}.")
        if position.epoch == stage.epochs:
            return
        self._loop = Loop(self._trainer, distribution)
        first_step = position.epoch * self._steps_per_epoch + position.step
        with StopSignals(is_on=self._saves_steps) as self._stop:
            self._loop.fit(
                stream.training(position.epoch, position.step),
                steps_per_epoch=self._steps_per_epoch,
                initial_epoch=position.epoch,
                initial_step=position.step,
                running=running,
                epochs=stage.epochs,
                validation_data=self._dev,
                callbacks=self._callbacks(seed, first_step),
            )

    @property
    def _saves_steps(self):
        """Whether one process trains. Several would stop at different steps."""
        return self.arm.distribution.num_processes == 1

    def _callbacks(self, seed, first_step):
        name, num_epochs = self.stage.name, self.stage.epochs
        checks = [SeedEpochs(seed), StopAtNonFinite(name, first_step)]
        if not self.arm.distribution.is_chief:
            return [*checks, self]
        self._curves = Curves(self._log.tensorboard / name, first_step)
        progress = Progress(
            self._title, num_epochs, self._steps_per_epoch, self._source
        )
        return [*checks, self._curves, self, progress]

    def on_epoch_begin(self, epoch, logs=None):
        """Begins to count the seconds of an epoch."""
        self._last_save = time.monotonic()
        self._start = self._last_save - self.checkpoints.position.seconds

    def on_train_batch_end(self, batch, logs=None):
        """Saves at intervals within an epoch, and on signals."""
        since = time.monotonic() - self._last_save
        interval = 60 * self.arm.training.checkpoint_minutes
        if self._stop.is_requested or since >= interval:
            self._save_step(batch + 1)
            self._last_save = time.monotonic()
            self._stop.raise_if_requested()

    def on_epoch_end(self, epoch, logs=None):
        """Measures the model, logs and saves."""
        self._finish_epoch(epoch + 1, logs)
        self._stop.raise_if_requested()

    def _seconds(self):
        """The seconds of the epoch, over all starts of the run."""
        return time.monotonic() - self._start

    def _save_step(self, step, running=None):
        """Saves within an epoch, with the given sums or the current ones."""
        if self._saves_steps:
            running = running or running_values(self._trainer)
            seconds = self._seconds()
            self.checkpoints.save_step(self._trainer, step, seconds, running)

    def _finish_epoch(self, epoch, logs):
        """Evaluates, logs and saves; adds the measured values to `logs`."""
        running = running_values(self._trainer)
        try:
            with self._stop.at_once():
                evaluation = self._measure(logs)
        except STOPS:
            self._save_step(self._steps_per_epoch, running)
            raise
        if evaluation is None:
            return
        stage = self.stage
        logs |= {name: float(value) for name, value in logs.items()}
        self._curves.write_epoch(epoch, logs)
        num_parts = stage.gradient_accumulation_steps
        self._log.epoch(
            stage.name,
            epoch,
            evaluation,
            step=epoch * self._steps_per_epoch // num_parts,
            seconds=self._seconds(),
            logs=logs,
            less_teacher_entropy=stage.losses_less_entropy or None,
        )
        self.checkpoints.save_epoch(
            self._trainer,
            self.arm.model,
            epoch,
            running,
            evaluation["metrics"][self._source.metric],
            self._source.larger_is_better,
            logs["val_loss"],
        )

    def _measure(self, logs):
        """The fields of an event, `None` in processes other than the chief."""
        for name, value in self._loop.evaluate(self._dev).items():
            logs[f"val_{name}"] = value
        if not self.arm.distribution.is_chief:
            return None
        learning_rate = self._trainer.optimizer.learning_rate
        logs["learning_rate"] = float(ops.convert_to_numpy(learning_rate))
        evaluation = self._source.measure(self.arm.forward, logs)
        found = evaluation["metrics"] | (evaluation.get("agreement") or {})
        logs |= {f"val_{name}": value for name, value in found.items()}
        return evaluation

    def _quantize(self):
        """Lets the model round, with the ranges of its weights at the start."""
        file = self._folder / RANGES_FILE
        with self.arm.distribution.chief_first():
            if file.exists():
                self.arm.quantize(read_quantization(file))
                return
            quantization = FakeQuantization(
                self.stage.quantize, calibration_batches(self._source.train)
            )
            self.arm.quantize(quantization)
            self._folder.mkdir(parents=True, exist_ok=True)
            quantization.save(file)
            _log.info(f"{self._title}: rounding as {self.stage.quantize}.")


def calibration_batches(examples):
    """Yields some examples to measure ranges on, padded to the full length."""
    rows = np.random.default_rng(0).permutation(len(examples))
    rows = rows[:CALIBRATION_ROWS]
    for start in range(0, len(rows), CALIBRATION_BATCH):
        batch = np.sort(rows[start : start + CALIBRATION_BATCH])
        yield examples.inputs(batch, examples.sequence_length)
