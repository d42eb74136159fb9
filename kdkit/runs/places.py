"""Places of the models that a run's config names."""

import pathlib

from kdkit.runs.steps import RESULT, place_of_step


def teachers_of(config) -> tuple[str, ...]:
    """Returns the teachers that a config names, the first one first."""
    teachers = config.teacher
    if isinstance(teachers, tuple):
        return teachers
    return () if teachers is None else (teachers,)


def model_place(model: str, config, run_dir: pathlib.Path) -> str:
    """Returns the place of a model of a config, also of a step's result."""
    if not model.startswith(RESULT):
        return model
    return str(place_of_step(config, model.removeprefix(RESULT), run_dir))
