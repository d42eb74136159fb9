"""One model of a run, with its teachers, its data and its stages."""

import dataclasses
import functools

import keras

from kdkit.models.heads import in_policy, untrained_head
from kdkit.quantization import FakeQuantization
from kdkit.recipes.stages import Stage
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
    checkpoint_minutes: float = 10.0
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

    def run(self, log, stages: tuple[Stage, ...]):
        """Runs the unfinished stages.

        Args:
            log: as of `StageRun`; its `best` and `untrained` return the result.
            stages: tuple of `Stage`.
        """
        if not stages:
            return log.untrained(self.source.measure(self.forward, {}))
        if self.caches is not None:
            self.caches.expect(stages, self.model)
        for stage in stages:
            StageRun(log, self, stage).run()
        untrained = []
        if not any(stage.trains_head for stage in stages):
            untrained = untrained_head(self.model)  # layers of the head
        epoch = StageRun(log, self, stages[-1]).final_epoch
        return log.best(stages[-1].name, epoch, tuple(untrained))
