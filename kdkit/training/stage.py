"""Trains a stage of an arm, from any position to its end."""

import functools
import logging
import zlib

import keras
import numpy as np
from keras import ops

from kdkit.io.signals import STOPS, StopSignals
from kdkit.quantization import RANGES_FILE, FakeQuantization, read_quantization
from kdkit.runs.directory import CHECKPOINTS
from kdkit.runs.events import Epoch, Evaluation, StageFinished
from kdkit.taps import number_later
from kdkit.training.callbacks import (
    Checkpointing,
    Curves,
    SeedEpochs,
    StopAtNonFinite,
)
from kdkit.training.checkpoints import StageCheckpoints, running_values
from kdkit.training.loop import make_loop
from kdkit.training.progress import Progress
from kdkit.training.trainers import make_trainer

_log = logging.getLogger(__name__)
CALIBRATION_ROWS = 256
CALIBRATION_BATCH = 32


class StageRun:
    """A stage of an arm in a run directory."""

    def __init__(self, run, arm, stage):
        self.run_directory = run
        self.arm = arm
        self.stage = stage
        self._source = arm.source
        if arm.source.without_teacher is not None and not stage.objectives:
            self._source = arm.source.without_teacher()
        self._folder = run.path / CHECKPOINTS / arm.name / stage.name
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
        self._log_end()

    def _train(self, features):
        """Trains from the newest checkpoint to the last epoch."""
        arm, stage, distribution = self.arm, self.stage, self.arm.distribution
        position = self.checkpoints.position
        stream = self._source.training_stream(
            stage, arm.seed, features, distribution.shares
        )
        self._steps_per_epoch = stream.steps_per_epoch
        self._dev = self._source.validation_stream(
            stage, features, distribution.shares
        ).evaluation()
        # Projections start with the same weights, whether or not earlier stages
        # ran in this process.
        seed = zlib.crc32(f"{arm.seed} {stage.name}".encode())
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
            _log.info(f"{self._title}: continuing {position}.")
        if position.epoch == stage.epochs:
            return
        self._loop = make_loop(self._trainer, distribution)
        with StopSignals(is_on=self._saves_steps) as stop:
            self._loop.fit(
                stream.training(position.epoch, position.step),
                steps_per_epoch=self._steps_per_epoch,
                initial_epoch=position.epoch,
                initial_step=position.step,
                running=running,
                epochs=stage.epochs,
                validation_data=self._dev,
                callbacks=self._callbacks(seed, stop),
            )

    @property
    def _saves_steps(self):
        """Whether one process trains. Several would stop at different steps."""
        return self.arm.distribution.num_processes == 1

    def _callbacks(self, seed, stop):
        position = self.checkpoints.position
        first_step = position.epoch * self._steps_per_epoch + position.step
        curves = progress = None
        if self.arm.distribution.is_chief:
            places = "tensorboard", self.arm.name, self.stage.name
            curves = Curves(
                self.run_directory.path.joinpath(*places), first_step
            )
            progress = Progress(
                self._title,
                self.stage.epochs,
                self._steps_per_epoch,
                self._source.metric,
                self._source.larger_is_better,
            )
        checkpointing = Checkpointing(
            self._save_step,
            functools.partial(self._finish_epoch, curves, stop),
            self.arm.saving.checkpoint_minutes,
            stop,
            position.seconds,
        )
        stop_at_nan = StopAtNonFinite(self.stage.name, first_step)
        found = SeedEpochs(seed), stop_at_nan, curves, checkpointing, progress
        return [*filter(None, found)]

    def _save_step(self, step, seconds, running=None):
        """Saves within an epoch, with the given sums or the current ones."""
        if self._saves_steps:
            running = running or running_values(self._trainer)
            self.checkpoints.save_step(self._trainer, step, seconds, running)

    def _finish_epoch(self, curves, stop, epoch, logs, seconds):
        """Evaluates, logs and saves; adds the measured values to `logs`."""
        running = running_values(self._trainer)
        try:
            with stop.at_once():
                evaluation = self._measure(logs)
        except STOPS:
            self._save_step(self._steps_per_epoch, seconds(), running)
            raise
        if evaluation is None:
            return
        stage = self.stage
        where = {"arm": self.arm.name, "stage": stage.name, "epoch": epoch}
        logs |= {name: float(value) for name, value in logs.items()}
        curves.write_epoch(epoch, logs)
        num_parts = stage.gradient_accumulation_steps
        self.run_directory.log(
            Epoch(
                **where,
                step=epoch * self._steps_per_epoch // num_parts,
                seconds=seconds(),
                logs=logs,
                less_teacher_entropy=stage.losses_less_entropy or None,
            )
        )
        self.run_directory.log(Evaluation(**where, **evaluation))
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
        for source in ("metrics", "agreement"):
            for name, value in (evaluation.get(source) or {}).items():
                logs[f"val_{name}"] = value
        return evaluation

    def _quantize(self):
        """Lets the model round, with the ranges of its weights at the start."""
        file = self._folder / RANGES_FILE
        with self.arm.distribution.chief_first():
            if file.exists():
                quantization = read_quantization(file)
            else:
                quantization = FakeQuantization(
                    self.stage.quantize, calibration_batches(self._source.train)
                )
            self.arm.quantize(quantization)
            if self.arm.distribution.is_chief and not file.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                quantization.save(file)
                _log.info(f"{self._title}: rounding as {self.stage.quantize}.")

    def _log_end(self):
        """Logs the stage's end and its seconds."""
        where = {"arm": self.arm.name, "stage": self.stage.name}
        seconds = sum(
            event.seconds
            for event in self.run_directory.events(Epoch)
            if {"arm": event.arm, "stage": event.stage} == where
        )
        self.run_directory.log(StageFinished(**where, seconds=seconds))


def calibration_batches(examples):
    """Yields some examples to measure ranges on, padded to the full length."""
    rows = np.random.default_rng(0).permutation(len(examples))
    for start in range(0, CALIBRATION_ROWS, CALIBRATION_BATCH):
        batch = np.sort(rows[start : start + CALIBRATION_BATCH])
        if len(batch):
            yield examples.inputs(
                examples.sequences_of(batch), examples.sequence_length
            )
