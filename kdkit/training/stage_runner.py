"""Running one stage: data, trainer, callbacks, checkpoints."""

import dataclasses
import functools
import zlib

import keras

from kdkit import models
from kdkit.backends import tf
from kdkit.data import in_parts
from kdkit.training.caching import TeacherCaches
from kdkit.training.callbacks import EpochEnd
from kdkit.training.callbacks import ProgressLines
from kdkit.training.callbacks import SeedEpochs
from kdkit.training.callbacks import StopAtNonFinite
from kdkit.training.checkpoints import StageCheckpoints
from kdkit.training.distribution import ONE_DEVICE
from kdkit.training.distribution import Distribution
from kdkit.training.evaluation import make_forward
from kdkit.training.material import Material
from kdkit.training.replica_loop import KerasLoop
from kdkit.training.replica_loop import ReplicaLoop
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_log import format_metrics
from kdkit.training.stages import Stage
from kdkit.training.trainers import batches_for
from kdkit.training.trainers import make_trainer


@dataclasses.dataclass(frozen=True)
class Arm:
    """One model on its way through stages.

    Args:
        name: string. `"teacher"`, `"student"` or `"control"`.
        model: the classifier that is trained.
        teacher: the classifier that it learns from, a list of several, or
            `None`.
        material: `Material`. What it trains on.
        seed: int. Seed of the order of the rows.
        jit_compile: bool or `"update"`, as in the settings of a run.
        teacher_weights: tuple of floats, one per teacher, or `None` for equal
            ones.
        caches: `TeacherCaches` or `None`. Where the teachers' outputs are
            read, in place of running them.
        distribution: `Distribution` that the models were made in. Defaults to
            one device.
    """

    name: str
    model: keras.Model
    teacher: keras.Model | list[keras.Model] | None
    material: Material
    seed: int
    jit_compile: bool | str
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    distribution: Distribution = ONE_DEVICE

    @property
    def forward(self):
        """The model's forward pass in float32, with the weights it has now."""
        copy, forward = self._measured
        if copy is not self.model:
            copy.set_weights(self.model.get_weights())
        return forward

    @functools.cached_property
    def _measured(self):
        """The model, or its copy in float32, and the forward pass of that."""
        copy = models.in_policy(self.model, "float32")
        return copy, make_forward(copy)

    def run(self, run: RunDirectory, stages: tuple[Stage, ...]) -> dict:
        """Runs what is left of the stages; returns the best of the last one.

        Returns:
            A dict with the `stage` and its `epoch` with whose weights the
            model ends, or `None` and the `averaged_epochs`; the `split` it was
            measured on, `metrics` and `agreement`.
        """
        for stage in stages:
            StageRun(run, self, stage).run()
        epoch = StageRun(run, self, stages[-1]).final_epoch
        # The first of them: other dev splits are measured after it.
        evaluation = next(
            event
            for event in run.events("evaluation")
            if event["arm"] == self.name
            and event["stage"] == stages[-1].name
            and event["epoch"] == epoch
        )
        return {
            "stage": stages[-1].name,
            "epoch": epoch,
            "averaged_epochs": stages[-1].averaged_epochs,
            "split": evaluation["split"],
            "metrics": evaluation["metrics"],
            "agreement": evaluation["agreement"],
        }


class StageRun:
    """A stage of an arm in a run directory.

    Args:
        run: `RunDirectory`.
        arm: `Arm`.
        stage: `Stage`.
    """

    def __init__(self, run, arm, stage):
        self.run_directory = run
        self.arm = arm
        self.stage = stage
        self._material = arm.material
        if not stage.objectives:
            self._material = arm.material.labeled_only()
        self.checkpoints = StageCheckpoints(
            run.path / "checkpoints" / arm.name / stage.name,
            stage.averaged_epochs,
        )

    @property
    def final_epoch(self) -> int | None:
        """The epoch it ended with the weights of, `None` if with a mean."""
        if self.stage.averaged_epochs:
            return None
        state = self.checkpoints.state
        return state.best_epoch if self.stage.keep_best else state.epoch

    def run(self) -> None:
        """Trains from the last finished epoch on, or loads what is there."""
        title = f"{self.arm.name}, {self.stage.name}"
        if self.checkpoints.state.is_finished:
            print(f"{title}: finished earlier, weights loaded.", flush=True)
            self.checkpoints.restore_final(self.arm.model)
            return
        first_epoch = self.checkpoints.state.epoch
        self._forget_unfinished_epochs(first_epoch)
        self._features = None
        if self.arm.caches is not None and self.stage.objectives:
            self._features = self.arm.caches.features(
                self.stage, self.arm.model, self.arm.teacher_weights
            )
        distribution = self.arm.distribution
        with distribution.chief_first():  # it fills the caches
            batches, steps_per_epoch = self._material.training_batches(
                self.stage,
                self.arm.seed,
                first_epoch,
                self._features,
                distribution.shares,
            )
        num_parts = self.stage.gradient_accumulation_steps
        if num_parts > 1:
            batches = in_parts(batches, num_parts)
        self._updates_per_epoch = steps_per_epoch
        self._steps_per_epoch = steps_per_epoch * num_parts
        # Projections start alike whether or not the stages before ran just now.
        seed = zlib.crc32(f"{self.arm.seed} {self.stage.name}".encode())
        keras.utils.set_random_seed(seed)
        self._seed = seed
        with distribution.scope():
            trainer = make_trainer(
                self.arm,
                self.stage,
                self._material,
                self.stage.epochs * self._updates_per_epoch,
            )
        if first_epoch:
            print(f"{title}: going on after epoch {first_epoch}.", flush=True)
            self.checkpoints.restore_epoch(trainer)
        if first_epoch < self.stage.epochs:
            self._fit(trainer, batches, first_epoch, title)
        if self.stage.averaged_epochs:
            self._take_mean(trainer, title)
        with distribution.chief_first():
            if distribution.is_chief:
                self.checkpoints.finish(self.arm.model, self.stage.keep_best)
            else:
                self.checkpoints.restore_final(self.arm.model)
        self.run_directory.log(
            "stage_finished",
            arm=self.arm.name,
            stage=self.stage.name,
            seconds=sum(
                event["seconds"]
                for event in self.run_directory.events("epoch")
                if self._is_mine(event)
            ),
        )

    def _fit(self, trainer, batches, first_epoch, title):
        self._trainer = trainer
        logdir = (
            self.run_directory.path
            / "tensorboard"
            / self.arm.name
            / self.stage.name
        )
        callbacks = [
            SeedEpochs(self._seed),
            StopAtNonFinite(
                self.stage.name, first_epoch * self._steps_per_epoch
            ),
        ]
        if self.arm.distribution.is_chief:
            callbacks += [
                EpochEnd(self._finish_epoch),
                ProgressLines(title, self.stage.epochs, self._steps_per_epoch),
                keras.callbacks.TensorBoard(
                    str(logdir), write_graph=False, update_freq=100
                ),
            ]
        # Undone on the way out, also where TensorBoard's callback is not.
        with tf.summary.record_if(True):
            self._loop(trainer).fit(
                batches_for(self.arm, self.stage, batches),
                steps_per_epoch=self._steps_per_epoch,
                initial_epoch=first_epoch,
                epochs=self.stage.epochs,
                validation_data=self._validation_batches(),
                callbacks=callbacks,
            )

    def _take_mean(self, trainer, title):
        """Averages the weights of the last epochs, and measures the mean."""
        with self.arm.distribution.chief_first():  # it saved the epochs
            self.checkpoints.load_mean(self.arm.model)
        losses = self._loop(trainer).evaluate(self._validation_batches())
        if not self.arm.distribution.is_chief:
            return
        evaluation = self._material.evaluate(
            self.arm.forward,
            {f"val_{name}": value for name, value in losses.items()},
        )
        self.run_directory.log(
            "evaluation",
            arm=self.arm.name,
            stage=self.stage.name,
            epoch=None,
            averaged_epochs=self.stage.averaged_epochs,
            **evaluation,
        )
        print(
            f"{title}: mean of the last {self.stage.average_last} epochs: "
            f"{format_metrics(evaluation['metrics'])}",
            flush=True,
        )

    def _loop(self, trainer):
        """What fits and evaluates: Keras, or a loop for several replicas."""
        if self.arm.distribution.strategy is None:
            return KerasLoop(trainer)
        return ReplicaLoop(trainer, self.arm.distribution)

    def _validation_batches(self):
        distribution = self.arm.distribution
        with distribution.chief_first():
            batches = self._material.validation_batches(
                self._features, distribution.shares
            )
        return batches_for(self.arm, self.stage, batches)

    def _finish_epoch(self, epoch, logs, seconds):
        """Evaluates, logs and saves; adds the dev metrics to `logs`."""
        material = self._material
        evaluation = material.evaluate(self.arm.forward, logs)
        for source in ("metrics", "agreement"):
            for name, value in (evaluation[source] or {}).items():
                logs[f"val_{name}"] = value
        where = {
            "arm": self.arm.name,
            "stage": self.stage.name,
            "epoch": epoch,
        }
        self.run_directory.log(
            "epoch",
            **where,
            step=epoch * self._updates_per_epoch,
            seconds=seconds,
            logs={name: float(value) for name, value in logs.items()},
        )
        self.run_directory.log("evaluation", **where, **evaluation)
        self.checkpoints.save_epoch(
            self._trainer,
            self.arm.model,
            epoch,
            evaluation["metrics"][material.primary_metric],
            material.larger_is_better,
        )

    def _forget_unfinished_epochs(self, last_epoch):
        """Drops what was logged after the last checkpoint, and of a mean."""
        kept = range(1, last_epoch + 1)
        self.run_directory.keep_events(
            lambda event: not self._is_mine(event) or event["epoch"] in kept
        )

    def _is_mine(self, event):
        return (
            event["event"] in ("epoch", "evaluation")
            and event.get("arm") == self.arm.name
            and event.get("stage") == self.stage.name
        )
