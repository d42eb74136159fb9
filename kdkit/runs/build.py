"""What a run is made of, each part built once.

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
        source: what the stages train on.
        stages: tuple of `Stage`.
        teacher_weights: as in `kdkit.Distiller`. Defaults to `None`.
        caches: `TeacherCaches` or `None`. Defaults to `None`.
        on_text: bool. Whether the model learns from text, from which a pooler
            gets no gradient. Defaults to `False`.
    """

    model: keras.Model
    teachers: object
    source: object
    stages: tuple[Stage, ...]
    teacher_weights: tuple[float, ...] | None = None
    caches: TeacherCaches | None = None
    on_text: bool = False


class Parts:
    """The parts of a run.

    The runner calls the methods here, which do nothing where a kind of run has
    nothing to do, and in this order those that every kind of run has:

    - `inputs()` returns what the run is made from, by content;
    - `build()` makes the models, and refuses all that does not fit together;
    - `examine(run, force)` returns the doctor's findings, `None` if they were
      logged before;
    - `load(run)` reads the data;
    - `arms` has the names of the models to train;
    - `legs(run, name)` returns how a model is trained, and logs its size;
    - `save(run, name, model)` saves a trained model.

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
        """Returns whether `build` reads what an earlier step makes.

        Args:
            step: string. Its name.
        """
        return True

    def check(self, run, force: bool, has_steps: bool) -> Findings | None:
        """Checks what needs no model of the run, before everything else.

        Args:
            run: `RunDirectory`.
            force: bool. Whether to continue where the run would be ruined.
            has_steps: bool. Whether other runs make its models first.

        Returns:
            `Findings` about all steps, or `None`.
        """

    def open_caches(self) -> None:
        """Opens the caches of the teachers' outputs, after `examine`."""

    def measure(self, run) -> None:
        """Logs what is measured before training, after `load`."""


def check_objectives(stages, teacher, student) -> None:
    """Builds what stages on text will build, so that misfits are reported.

    Args:
        stages: iterable of `Stage` with objectives.
        teacher: `keras.Model`.
        student: `keras.Model`.

    Raises:
        UsageError: with all that does not fit.
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
