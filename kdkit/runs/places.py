"""Places of the models that a run's config names."""

import pathlib

STEP = "run:"  # before the name of a step, in the place of a model


def teachers_of(config) -> tuple[str, ...]:
    """Returns the teachers that a config names, the first one first."""
    teachers = config.teacher
    if isinstance(teachers, tuple):
        return teachers
    return () if teachers is None else (teachers,)


def model_place(model: str, config, run_dir: pathlib.Path) -> str:
    """Returns the place of a model of a config, also of a step's result."""
    if not model.startswith(STEP):
        return model
    name = model.removeprefix(STEP)
    if name not in config.steps:  # a step that is beside this one
        return str(run_dir.parent / f"{name}_run")
    place = getattr(config.steps[name], "run_dir", None)
    return str(place or run_dir / f"{name}_run")
