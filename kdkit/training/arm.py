"""One model of a run, with its teachers, its data and its stages."""

import dataclasses
import functools

import keras

from kdkit.models.heads import in_policy, untrained_head
from kdkit.quantization import FakeQuantization
from kdkit.recipes.stages import Stage
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Best, Evaluation
from kdkit.runs.settings import Saving
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE, Distribution
from kdkit.training.source import Source, make_forward
from kdkit.training.stage import StageRun


@dataclasses.dataclass(frozen=True)
class Arm:
    """One model with the teachers and the data of its stages."""

    name: str
    model: keras.Model
    teacher: keras.Model | list[keras.Model] | None
    source: Source
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
        copy = in_policy(self.result, "float32")
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
            arm=self.name, **self.source.measure(self.forward, {})
        )
        run.log(evaluation)
        return Best(split=evaluation.split, metrics=evaluation.metrics)

    def _untrained_layers(self, stages):
        """The head's layers that still have their initial weights."""
        if any(stage.trains_head for stage in stages):
            return []
        return untrained_head(self.model)

    def _evaluation(self, run, stage, epoch):
        """The evaluation after the epoch whose weights the model has."""
        where = (self.name, stage.name, epoch)
        # The first evaluation: other dev splits are measured after it.
        return next(
            event
            for event in run.events(Evaluation)
            if (event.arm, event.stage, event.epoch) == where
        )
