"""The training of a stage from any step on: what is saved, logged, measured."""

import dataclasses
import functools

import keras

from kdkit.backends import tf
from kdkit.stopping import STOPS
from kdkit.stopping import StopSignals
from kdkit.training.callbacks import Checkpointing
from kdkit.training.callbacks import ProgressLines
from kdkit.training.callbacks import SeedEpochs
from kdkit.training.callbacks import StopAtNonFinite
from kdkit.training.checkpoints import StageCheckpoints
from kdkit.training.curves import Curves
from kdkit.training.loops import KerasLoop
from kdkit.training.loops import ReplicaLoop
from kdkit.training.material import Material
from kdkit.training.run_directory import RunDirectory
from kdkit.training.running_state import RunningState
from kdkit.training.stages import Stage


@dataclasses.dataclass(frozen=True, eq=False)
class StageFit:
    """What trains a stage of an arm.

    Args:
        run: `RunDirectory`.
        arm: `Arm`.
        stage: `Stage`.
        material: `Material` of the stage.
        checkpoints: `StageCheckpoints`.
        trainer: compiled `keras.Model`.
        seed: int. Of what is random in an epoch.
        steps_per_epoch: int. Batches, or parts of them.
        validation: `tf.data.Dataset` of known length.
    """

    run: RunDirectory
    arm: object
    stage: Stage
    material: Material
    checkpoints: StageCheckpoints
    trainer: keras.Model
    seed: int
    steps_per_epoch: int
    validation: tf.data.Dataset

    @functools.cached_property
    def _loop(self):
        """What fits and evaluates: on one device, or on several replicas."""
        if self.arm.distribution.strategy is None:
            return KerasLoop(self.trainer)
        return ReplicaLoop(self.trainer, self.arm.distribution)

    @property
    def _saves_steps(self):
        """Whether one process trains; several would stop at several steps."""
        return self.arm.distribution.num_processes == 1

    def evaluate(self) -> dict:
        """Returns the fields of an `"evaluation"` event of the model now.

        Of several processes, the others than the chief get nothing.
        """
        return self._measure({}) or {}

    def fit(
        self, batches: tf.data.Dataset, running: RunningState | None
    ) -> None:
        """Trains from where the checkpoints stand to the end.

        Args:
            batches: `tf.data.Dataset`, endless, from there on.
            running: `RunningState` there, `None` at the beginning of an epoch.

        Raises:
            KeyboardInterrupt: after SIGINT, when what was begun is saved.
            Terminated: after SIGTERM, likewise.
        """
        position = self.checkpoints.state.newest
        first_step = position.epoch * self.steps_per_epoch + position.step
        is_chief = self.arm.distribution.is_chief
        curves = None
        if is_chief:
            curves = Curves(
                self.run.path / "tensorboard" / self.arm.name / self.stage.name,
                first_step,
                position.epoch,
            )
        with StopSignals(is_on=self._saves_steps) as stop:
            callbacks = [
                SeedEpochs(self.seed),
                StopAtNonFinite(self.stage.name, first_step),
                *([curves] if is_chief else []),
                Checkpointing(
                    functools.partial(self._save_step, curves),
                    functools.partial(self._finish_epoch, curves, stop),
                    self.arm.saving.checkpoint_minutes,
                    stop,
                    position.seconds,
                ),
            ]
            if is_chief:
                callbacks.append(
                    ProgressLines(
                        f"{self.arm.name}, {self.stage.name}",
                        self.stage.epochs,
                        self.steps_per_epoch,
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

    def _save_step(self, curves, step, seconds, running=None):
        """Saves within an epoch, with the sums there or those of now."""
        if self._saves_steps:
            curves.flush()
            self.checkpoints.save_step(
                self.trainer,
                step,
                seconds,
                running or RunningState.of(self.trainer),
            )

    def _finish_epoch(self, curves, stop, epoch, logs, seconds):
        """Evaluates, logs and saves; adds what is measured to `logs`."""
        before = RunningState.of(self.trainer)
        try:
            with stop.at_once():
                evaluation = self._measure(logs)
        except STOPS:
            self._save_step(curves, self.steps_per_epoch, seconds(), before)
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
        curves.flush()
        num_parts = self.stage.gradient_accumulation_steps
        self.run.log(
            "epoch",
            **where,
            step=epoch * self.steps_per_epoch // num_parts,
            seconds=seconds(),
            logs=logs,
            **self.stage.loss_meaning,
        )
        self.run.log("evaluation", **where, **evaluation)
        self.checkpoints.save_epoch(
            self.trainer,
            self.arm.model,
            epoch,
            evaluation["metrics"][self.material.primary_metric],
            self.material.larger_is_better,
        )

    def _measure(self, logs):
        """The fields of an event, `None` where another process is the chief.

        Losses, metrics and agreement on dev are added to `logs`.
        """
        for name, value in self._loop.evaluate(self.validation).items():
            logs[f"val_{name}"] = value
        if not self.arm.distribution.is_chief:
            return None
        learning_rate = self.trainer.optimizer.learning_rate
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(learning_rate))
        evaluation = self.material.evaluate(self.arm.forward, logs)
        for source in ("metrics", "agreement"):
            for name, value in (evaluation[source] or {}).items():
                logs[f"val_{name}"] = value
        return evaluation
