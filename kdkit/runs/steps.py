"""The runs before a run: their places, and configs that contain them."""

import pathlib

from kdkit.errors import unknown

RESULT = "run:"  # before the name of the step that makes a model


def place_of_step(config, name: str, folder: pathlib.Path) -> pathlib.Path:
    """Returns the directory of a step, or the file of augmented examples."""
    step = config.steps[name]
    if step.kind == "augmentation":
        return pathlib.Path(config.augmented.file)
    return pathlib.Path(step.run_dir or folder / f"{name}_run")


def with_shared_steps(config, folder: pathlib.Path):
    """Returns a config whose steps are in a folder, for several runs."""
    steps = {
        name: step
        if step.kind == "augmentation" or step.run_dir
        else step.replace(run_dir=str(folder.resolve() / f"{name}_run"))
        for name, step in config.steps.items()
    }
    return config.replace(steps=steps)


def model_place(model: str, config, folder: pathlib.Path) -> str:
    """Returns the place of a model of a config, also of a step's result."""
    if not model.startswith(RESULT):
        return model
    return str(place_of_step(config, model.removeprefix(RESULT), folder))


def with_places(config, places: dict[str, pathlib.Path]):
    """Returns a config with places in it instead of `"run:NAME"`."""

    def filled(value):
        if isinstance(value, dict):
            return {
                name: one if name == "steps" else filled(one)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [filled(one) for one in value]
        if not isinstance(value, str) or not value.startswith(RESULT):
            return value
        name = value.removeprefix(RESULT)
        if name not in places:
            raise unknown("step", name, places)
        return str(places[name])

    tree = filled(config.model_dump(mode="json"))
    return type(config).model_validate(tree)
