"""The parts of a run: models, teachers, data and caches, each built once.

The runner calls the methods of `Parts` in their order, for every kind of run.
"""

import dataclasses
import pathlib

import keras

from kdkit.distillation.distiller import Distiller
from kdkit.doctor import Findings
from kdkit.errors import all_mistakes
from kdkit.recipes.stages import Stage
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE


@dataclasses.dataclass(frozen=True, eq=False)
class Leg:
    """Consecutive stages that train one model on one source.

    Args:
        model: the `keras.Model` that is trained.
        teachers: a `keras.Model`, a list of several, or `None`.
        source: the data source that the stages train on.
        stages: tuple of `Stage`.
        teacher_weights: as in `kdkit.Distiller`. Defaults to `None`.
        caches: `TeacherCaches` or `None`. Defaults to `None`.
        on_text: bool. Whether the model learns from text, where a pooler gets
            no gradient. Defaults to `False`.
        measured: the `keras.Model` inside `model` that is measured and saved,
            or `None` for `model` itself. Defaults to `None`.
    """

    model: keras.Model
    teachers: object
    source: object
    stages: tuple[Stage, ...]
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    on_text: bool = False
    measured: keras.Model | None = None


class Parts:
    """The parts of a run.

    Every kind of run has these methods, which the runner calls in this order:

    - `inputs()` returns the checksums of the run's inputs;
    - `build()` makes the models and rejects parts that do not fit together;
    - `examine(run, force)` returns the doctor's findings, or `None` if they
      were logged before;
    - `load(run)` reads the data;
    - `arms` has the names of the models to train;
    - `legs(run, name)` returns how a model is trained, and logs its size;
    - `save(run, name, model)` saves a trained model;
    - `note_answers(run, arm)` saves a summary of its answers on dev.

    The methods defined here do nothing by default. A kind of run overrides
    those that it needs.

    Args:
        settings: settings of the run.
        place: string or path of its directory.
        pretrained: place of the encoder that the settings call
            `"pretrained"`, or `None`. Defaults to `None`.
    """

    others = ()  # `Evaluator`s on further dev splits
    caches = None

    def __init__(self, settings, place, pretrained=None):
        self.settings = settings
        self.place = pathlib.Path(place)
        self.pretrained = pretrained
        self.distribution = ONE_DEVICE

    def needs(self, step: str) -> bool:
        """Returns whether `build` reads the result of an earlier step.

        Args:
            step: string. The step's name.
        """
        return True

    def check(self, run, force: bool, has_steps: bool) -> Findings | None:
        """Runs the first checks, which need no model of the run.

        Args:
            run: `RunDirectory`.
            force: bool. Whether to continue if a check reports an error.
            has_steps: bool. Whether earlier steps make the run's models.

        Returns:
            `Findings` about all steps, or `None`.
        """

    def open_caches(self) -> None:
        """Opens the teachers' caches. Called after `examine`."""

    def measure(self, run) -> None:
        """Measures models before training and logs it. Called after `load`."""

    def note_answers(self, run, arm) -> None:
        """Saves a summary of a trained model's answers, for the report.

        Args:
            run: `RunDirectory`.
            arm: `kdkit.training.stage_trainer.Arm`.
        """


def require_fitting_objectives(stages, teacher, student) -> None:
    """Validates that stages on text fit the teacher and the student.

    Args:
        stages: iterable of `Stage` with objectives.
        teacher: `keras.Model`.
        student: `keras.Model`.

    Raises:
        UsageError: with every mismatch.
    """
    with all_mistakes() as check:
        for stage in stages:
            with check():
                Distiller(
                    teacher,
                    student,
                    stage.weighted_objectives(),
                    stage.label_weight,
                    chunk_size=stage.chunk_size,
                )
