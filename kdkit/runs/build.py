"""The parts of a run: models, teachers, data and caches, each built once.

The runner calls the methods of `Parts` in their order, for every kind of run.
"""

import dataclasses
import pathlib

import keras

from kdkit.distillation.distiller import Distiller
from kdkit.doctor import Findings
from kdkit.recipes.stages import Stage
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE


@dataclasses.dataclass(frozen=True, eq=False)
class Leg:
    """Consecutive stages that train one model on one source."""

    model: keras.Model
    teachers: object
    source: object
    stages: tuple[Stage, ...]
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    on_text: bool = False
    measured: keras.Model | None = None


class Parts:
    """The parts of a run."""

    others = ()  # `Evaluator`s on further dev splits
    caches = None

    def __init__(self, settings, place, pretrained=None):
        self.settings = settings
        self.place = pathlib.Path(place)
        self.pretrained = pretrained
        self.distribution = ONE_DEVICE

    def needs(self, step: str) -> bool:
        """Returns whether `build` reads the result of an earlier step."""
        return True

    def check(self, run, force: bool, has_steps: bool) -> Findings | None:
        """Runs the first checks, which need no model of the run."""

    def open_caches(self) -> None:
        """Opens the teachers' caches. Called after `load`."""

    def measure(self, run) -> None:
        """Measures models before training and logs it. Called after `load`."""

    def note_answers(self, run, arm) -> None:
        """Saves a summary of a trained model's answers, for the report."""


def require_fitting_objectives(
    stages, teachers, student, teacher_weights=None
) -> None:
    """Requires that stages fit teachers and student, before long steps."""
    for stage in stages:
        Distiller(
            teachers,
            student,
            stage.weighted_objectives(),
            stage.label_weight,
            teacher_weights,
            chunk_size=stage.chunk_size,
        )
