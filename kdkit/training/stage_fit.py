"""The training loop of a stage, which can start at any step.

Keras' `fit` begins an epoch at its first batch with metrics at 0, so a run
could not continue within an epoch. On several devices, it splits batches
without regard to their examples. It does not run under
`tf.distribute.MultiWorkerMirroredStrategy`: before the first step, it passes a
`PerReplica` batch to the model's build, and it reduces a step's scalar logs
along their first axis (https://github.com/keras-team/keras/issues/20585).
These loops call Keras' compiled versions of the model's steps.
"""

import dataclasses
import functools

import keras

from kdkit.io.signals import STOPS, StopSignals
from kdkit.late import tf
from kdkit.recipes.stages import Stage
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Epoch, Evaluation
from kdkit.training.callbacks import (
    Checkpointing,
    Curves,
    Progress,
    SeedEpochs,
    StopAtNonFinite,
)
from kdkit.training.checkpoints import (
    StageCheckpoints,
    Values,
    assign_running,
    running_values,
)
from kdkit.training.sources import DataSource


@dataclasses.dataclass(frozen=True, eq=False)
class StageFit:
    """The training of one stage of an arm."""

    run: RunDirectory
    arm: object
    stage: Stage
    source: DataSource
    checkpoints: StageCheckpoints
    trainer: keras.Model
    seed: int
    steps_per_epoch: int
    validation: tf.data.Dataset

    @functools.cached_property
    def _loop(self):
        """The loop for one device, or for several replicas."""
        if self.arm.distribution.strategy is None:
            return KerasLoop(self.trainer)
        return ReplicaLoop(self.trainer, self.arm.distribution)

    @property
    def _saves_steps(self):
        """Whether one process trains. Several would stop at different steps."""
        return self.arm.distribution.num_processes == 1

    def fit(self, batches: tf.data.Dataset, running: Values | None) -> None:
        """Trains from the newest checkpoint to the end."""
        position = self.checkpoints.position
        first_step = position.epoch * self.steps_per_epoch + position.step
        is_chief = self.arm.distribution.is_chief
        curves = None
        if is_chief:
            curves = Curves(
                self.run.path / "tensorboard" / self.arm.name / self.stage.name,
                first_step,
            )
        with StopSignals(is_on=self._saves_steps) as stop:
            callbacks = [
                SeedEpochs(self.seed),
                StopAtNonFinite(self.stage.name, first_step),
                *([curves] if is_chief else []),
                Checkpointing(
                    self._save_step,
                    functools.partial(self._finish_epoch, curves, stop),
                    self.arm.saving.checkpoint_minutes,
                    stop,
                    position.seconds,
                ),
            ]
            if is_chief:
                callbacks.append(
                    Progress(
                        f"{self.arm.name}, {self.stage.name}",
                        self.stage.epochs,
                        self.steps_per_epoch,
                        self.source.primary_metric,
                        self.source.larger_is_better,
                    )
                )
            self._loop.fit(
                batches,
                steps_per_epoch=self.steps_per_epoch,
                initial_epoch=position.epoch,
                initial_step=position.step,
                running=running,
                epochs=self.stage.epochs,
                validation_data=self.validation,
                callbacks=callbacks,
            )

    def _save_step(self, step, seconds, running=None):
        """Saves within an epoch, with the given sums or the current ones."""
        if self._saves_steps:
            self.checkpoints.save_step(
                self.trainer,
                step,
                seconds,
                running or running_values(self.trainer),
            )

    def _finish_epoch(self, curves, stop, epoch, logs, seconds):
        """Evaluates, logs and saves; adds the measured values to `logs`."""
        before = running_values(self.trainer)
        try:
            with stop.at_once():
                evaluation = self._measure(logs)
        except STOPS:
            self._save_step(self.steps_per_epoch, seconds(), before)
            raise
        if evaluation is None:
            return
        where = {
            "arm": self.arm.name,
            "stage": self.stage.name,
            "epoch": epoch,
        }
        logs |= {name: float(value) for name, value in logs.items()}
        curves.write_epoch(epoch, logs)
        num_parts = self.stage.gradient_accumulation_steps
        less_entropy = self.stage.losses_less_entropy
        meaning = {"less_teacher_entropy": less_entropy} if less_entropy else {}
        self.run.log(
            Epoch(
                **where,
                step=epoch * self.steps_per_epoch // num_parts,
                seconds=seconds(),
                logs=logs,
                **meaning,
            )
        )
        self.run.log(Evaluation(**where, **evaluation))
        self.checkpoints.save_epoch(
            self.trainer,
            self.arm.model,
            epoch,
            before,
            evaluation["metrics"][self.source.primary_metric],
            self.source.larger_is_better,
            logs["val_loss"],
        )

    def _measure(self, logs):
        """The fields of an event, `None` in processes other than the chief."""
        for name, value in self._loop.evaluate(self.validation).items():
            logs[f"val_{name}"] = value
        if not self.arm.distribution.is_chief:
            return None
        learning_rate = self.trainer.optimizer.learning_rate
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(learning_rate))
        evaluation = self.source.evaluate(self.arm.forward, logs)
        for source in ("metrics", "agreement"):
            for name, value in (evaluation[source] or {}).items():
                logs[f"val_{name}"] = value
        return evaluation


class _Loop:
    """Trains and evaluates a compiled model."""

    elements_per_batch = 1

    def __init__(self, trainer):
        self._trainer = trainer

    def fit(
        self,
        batches: tf.data.Dataset,
        *,
        steps_per_epoch: int,
        initial_epoch: int,
        initial_step: int,
        running: Values | None,
        epochs: int,
        validation_data: tf.data.Dataset,
        callbacks: list,
    ) -> None:
        """Trains as `keras.Model.fit` does, but from any step."""
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            model=self._trainer,
            epochs=epochs,
            steps=steps_per_epoch,
        )
        self._evaluate(validation_data, 1)
        step_on = self._train_step()
        iterator = self._iterator(batches)
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self._trainer.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            if running is not None:
                assign_running(self._trainer, running)
            for step in range(initial_step, steps_per_epoch):
                callbacks.on_train_batch_begin(step)
                logs = step_on(iterator)
                callbacks.on_train_batch_end(step, logs)
            initial_step, running = 0, None
            callbacks.on_epoch_end(epoch, self._trainer.get_metrics_result())
        callbacks.on_train_end()

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the losses and the compiled metrics on some batches."""
        count = int(batches.cardinality()) // self.elements_per_batch
        return self._evaluate(batches, count)

    def _evaluate(self, batches, count):
        self._trainer.reset_metrics()
        step_on = self._test_step()
        iterator = self._iterator(batches)
        for _ in range(count):
            step_on(iterator)
        return self._trainer.get_metrics_result()


class KerasLoop(_Loop):
    """The loop for one device, with the steps as Keras compiles them."""

    def _train_step(self):
        self._trainer.make_train_function()
        return self._trainer.train_function

    def _test_step(self):
        self._trainer.make_test_function()
        return self._trainer.test_function

    def _iterator(self, batches):
        return iter(batches)


class ReplicaLoop(_Loop):
    """The loop for a strategy's replicas, with the first replica's logs."""

    def __init__(self, trainer, distribution):
        super().__init__(trainer)
        self._strategy = distribution.strategy
        self.elements_per_batch = distribution.shares.count
        self._compiled_train_step = self._compiled(trainer.train_step)
        self._compiled_test_step = self._compiled(trainer.test_step)

    def _train_step(self):
        return self._compiled_train_step

    def _test_step(self):
        return self._compiled_test_step

    def _iterator(self, shares):
        return iter(
            self._strategy.distribute_datasets_from_function(lambda _: shares)
        )

    def _compiled(self, step):
        """A step of all replicas on their next shares; returns its logs."""
        strategy = self._strategy

        def run(iterator):
            logs = strategy.run(step, args=(next(iterator),))
            return {
                name: strategy.experimental_local_results(value)[0]
                for name, value in logs.items()
            }

        if self._trainer.run_eagerly:
            return run
        return tf.function(run, autograph=False, reduce_retracing=True)
