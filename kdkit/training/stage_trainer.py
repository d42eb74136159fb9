"""Runs an arm's stages: data, trainer, callbacks, checkpoints."""

import dataclasses
import functools
import logging
import zlib

import keras
import numpy as np
from keras import ops

from kdkit import models
from kdkit.distillation import label_count
from kdkit.distillation.distiller import Distiller
from kdkit.losses.base import safe_divide
from kdkit.models import padding_row
from kdkit.quantization import RANGES_FILE, FakeQuantization, read_quantization
from kdkit.recipes.stages import Stage
from kdkit.runs.directory import CHECKPOINTS, RunDirectory
from kdkit.runs.events import Best, Epoch, Evaluation, StageFinished
from kdkit.runs.settings import Saving
from kdkit.steps import Step, sum_over_replicas
from kdkit.taps import number_later, select_inputs
from kdkit.training.caching import TeacherCaches
from kdkit.training.checkpoints import StageCheckpoints
from kdkit.training.distribution import ONE_DEVICE, Distribution
from kdkit.training.model_settings import UPDATE
from kdkit.training.optimizers import make_label_loss, make_optimizer
from kdkit.training.sources import DataSource
from kdkit.training.stage_fit import StageFit
from kdkit.training.task_data import make_forward

_log = logging.getLogger(__name__)
CALIBRATION_ROWS = 256
CALIBRATION_BATCH = 32


@dataclasses.dataclass(frozen=True)
class Arm:
    """One model with the teachers and the data of its stages."""

    name: str
    model: keras.Model
    teacher: keras.Model | list[keras.Model] | None
    source: DataSource
    seed: int
    jit_compile: bool | str
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    distribution: Distribution = ONE_DEVICE
    saving: Saving = Saving()
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
        copy = models.in_policy(self.result, "float32")
        return copy, make_forward(copy)

    def run(self, run: RunDirectory, stages: tuple[Stage, ...]) -> Best:
        """Runs the unfinished stages; returns the last stage's best epoch."""
        if not stages:
            return self._untrained(run)
        if self.caches is not None:
            self.caches.expect(stages, self.model)
        for stage in stages:
            StageRun(run, self, stage).run()
        epoch = StageRun(run, self, stages[-1]).final_epoch
        evaluation = self._evaluation(run, stages[-1], epoch)
        return Best(
            stage=stages[-1].name,
            epoch=epoch,
            split=evaluation.split,
            metrics=evaluation.metrics,
            agreement=evaluation.agreement,
            collapsed=evaluation.collapsed,
            untrained_layers=tuple(self._untrained_layers(stages)),
        )

    def _untrained(self, run):
        """The measurement of a model that no stage trains."""
        evaluation = Evaluation(
            arm=self.name, **self.source.evaluate(self.forward, {})
        )
        run.log(evaluation)
        return Best(split=evaluation.split, metrics=evaluation.metrics)

    def _untrained_layers(self, stages):
        """The head's layers that still have their initial weights."""
        if any(stage.trains_head for stage in stages):
            return []
        return models.untrained_head(self.model)

    def _evaluation(self, run, stage, epoch):
        """The evaluation after the epoch whose weights the model has."""
        where = (self.name, stage.name, epoch)
        # The first evaluation: other dev splits are measured after it.
        return next(
            event
            for event in run.events(Evaluation)
            if (event.arm, event.stage, event.epoch) == where
        )


class StageRun:
    """A stage of an arm in a run directory."""

    def __init__(self, run, arm, stage):
        self.run_directory = run
        self.arm = arm
        self.stage = stage
        self._source = arm.source
        if not stage.objectives:
            self._source = arm.source.labeled_only()
        self.checkpoints = StageCheckpoints(_checkpoints(run, arm, stage))

    @property
    def final_epoch(self) -> int:
        """The epoch of the stage's final weights."""
        position = self.checkpoints.position
        return position.best_epoch if self.stage.keep_best else position.epoch

    def run(self) -> None:
        """Trains from the last checkpoint on, or loads a finished stage."""
        title = f"{self.arm.name}, {self.stage.name}"
        if self.stage.quantize is not None:
            self._quantize(title)
        self._features = None
        if self.arm.caches is not None and self.stage.objectives:
            self._features = self.arm.caches.features(
                self.stage, self.arm.model
            )
        if self.checkpoints.is_finished:
            _log.info(f"{title}: finished earlier, weights loaded.")
            self.checkpoints.restore_final(self.arm.model)
            if self.arm.distribution.is_chief:
                self.checkpoints.clean()  # the process may have died before
            self._log_end()
            return
        position = self.checkpoints.position
        distribution = self.arm.distribution
        stream = self._source.training_stream(
            self.stage, self.arm.seed, self._features, distribution.shares
        )
        # Projections start with the same weights, whether or not earlier stages
        # ran in this process.
        seed = zlib.crc32(f"{self.arm.seed} {self.stage.name}".encode())
        keras.utils.set_random_seed(seed)
        number_later()
        with distribution.scope():
            trainer = make_trainer(
                self.arm,
                self.stage,
                self._source,
                self.stage.epochs * stream.batches_per_epoch,
            )
        running = self.checkpoints.restore(trainer)
        if position.epoch or position.step:
            _log.info(f"{title}: continuing {position}.")
        training = StageFit(
            run=self.run_directory,
            arm=self.arm,
            stage=self.stage,
            source=self._source,
            checkpoints=self.checkpoints,
            trainer=trainer,
            seed=seed,
            steps_per_epoch=stream.steps_per_epoch,
            validation=self._source.validation_stream(
                self.stage, self._features, distribution.shares
            ).evaluation(),
        )
        if position.epoch < self.stage.epochs:
            batches = stream.training(position.epoch, position.step)
            training.fit(batches, running)
        with distribution.chief_first():
            if distribution.is_chief:
                self.checkpoints.finish(self.arm.model, self.stage.keep_best)
            else:
                self.checkpoints.restore_final(self.arm.model)
        self._log_end()

    def _quantize(self, title):
        """Lets the model round, with the ranges of its weights at the start."""
        folder = _checkpoints(self.run_directory, self.arm, self.stage)
        file = folder / RANGES_FILE
        with self.arm.distribution.chief_first():
            if file.exists():
                quantization = read_quantization(file)
            else:
                quantization = FakeQuantization(
                    self.stage.quantize, calibration_batches(self._source.train)
                )
            self.arm.quantize(quantization)
            if self.arm.distribution.is_chief and not file.exists():
                folder.mkdir(parents=True, exist_ok=True)
                quantization.save(file)
                _log.info(f"{title}: rounding as {self.stage.quantize}.")

    def _log_end(self):
        """Logs the stage's end and its seconds."""
        where = {"arm": self.arm.name, "stage": self.stage.name}
        seconds = sum(
            event.seconds
            for event in self.run_directory.events(Epoch)
            if {"arm": event.arm, "stage": event.stage} == where
        )
        self.run_directory.log(StageFinished(**where, seconds=seconds))


def _checkpoints(run, arm, stage):
    """The folder of a stage's checkpoints."""
    return run.path / CHECKPOINTS / arm.name / stage.name


def calibration_batches(examples):
    """Yields some examples to measure ranges on, padded to the full length."""
    rows = np.random.default_rng(0).permutation(len(examples))
    for start in range(0, CALIBRATION_ROWS, CALIBRATION_BATCH):
        batch = np.sort(rows[start : start + CALIBRATION_BATCH])
        if len(batch):
            yield examples.inputs(
                examples.sequences_of(batch), examples.sequence_length
            )


def make_trainer(arm, stage: Stage, source: DataSource, num_updates: int):
    """Returns a compiled `Distiller`, or a `LabelTrainer` without a teacher."""
    if stage.objectives:
        trainer = Distiller(
            arm.teacher,
            arm.model,
            stage.weighted_objectives(),
            hard_label_weight=stage.label_weight,
            teacher_weights=arm.teacher_weights,
            chunk_size=stage.chunk_size,
        )
    else:
        trainer = LabelTrainer(arm.model)
    optimizer = make_optimizer(
        stage,
        num_updates,
        fused=arm.jit_compile == UPDATE,
        padding_row=padding_row(arm.model, source.pad_token_id),
    )
    trainer.compile(
        optimizer=optimizer,
        loss=make_label_loss(stage, source.label_loss),
        # Examples whose label does not count have weight 0.
        weighted_metrics=source.training_metrics or None,
        jit_compile=arm.jit_compile is True,
    )
    # Keras' loss-scaling optimiser, around the stage's.
    trainer.optimizer.build(trainer.trainable_variables)
    return trainer


class LabelTrainer(Step, keras.Model):
    """Trains a model on labels, with the loss over the whole batch."""

    def __init__(self, student):
        super().__init__(dtype=student.dtype_policy)
        self.student = student
        self.built = True

    def call(self, inputs, training=None):
        """Returns the model's output."""
        return self.student(
            select_inputs(self.student, inputs), training=training
        )

    def run_teachers(self, x) -> list:
        """Returns an empty list: there are no teachers."""
        return []

    def run_student(self, x, y, sample_weight, teachers_taps, training):
        """Returns this replica's share of the loss, and the logits."""
        y_pred = self(x, training=training)
        loss = self.compute_loss(x, y, y_pred, sample_weight, training)
        # Without examples, Keras returns losses of shape (0,).
        loss = ops.sum(ops.cast(loss, "float32"))
        count = label_count(self.loss, y, sample_weight)
        (total_count,) = sum_over_replicas([count])
        # Keras divides by the number of replicas.
        share = self.num_replicas * loss * safe_divide(count, total_count)
        (total,) = sum_over_replicas([share])
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(total, sample_weight=total_count)
        return share, y_pred
