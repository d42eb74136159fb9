"""A model of a run, with its teachers, its data and its stages."""

import contextlib
import dataclasses
import functools

import keras

from kdkit.config.runs import Training
from kdkit.models.heads import (
    backbone_of,
    frozen_pooler,
    in_policy,
    untrained_head,
)
from kdkit.quantization import FakeQuantization
from kdkit.recipes.stages import Stage
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE, Distribution
from kdkit.training.source import Source, make_forward
from kdkit.training.stage import StageRun


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
                StageRun(log, self, stage).run()
            untrained = []
            if not any(stage.trains_head for stage in self.stages):
                untrained = untrained_head(self.model)  # layers of the head
            last = self.stages[-1]
            epoch = StageRun(log, self, last).final_epoch
        return log.best(last.name, epoch, tuple(untrained))
