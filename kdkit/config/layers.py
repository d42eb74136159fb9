"""A run's config from layers of dicts: a recipe, a file, then what is given.

Each layer overrides the one before, field by field; the result is validated
once. What is given may also have short names: `epochs`, `batch_size` and
`learning_rate` of the only stage, `only_stages`, `quantize`, and what a run
makes before it: `encoder`, `general`, `augment_model`, `decoder`.
"""

import functools
import json
import pathlib
import tomllib

from pydantic import ValidationError

from kdkit.config.data import Augmentation
from kdkit.config.embedder_layer import embedder_layer
from kdkit.config.fields import names_at
from kdkit.config.model import kind_of_student
from kdkit.config.parts import TEXT, short_names, student_named, task_named
from kdkit.config.runs import ADAPTER, AnyRun
from kdkit.config.smoke import smoke_layer
from kdkit.config.task_layer import DATA, TEACHER, task_layer
from kdkit.config.text_layers import chain_layer, text_layer
from kdkit.errors import UsageError, unknown
from kdkit.recipes import RECIPES
from kdkit.recipes.tinybert import copies_for
from kdkit.settings import in_words, merged

# In config.json, next to the fields.
NOTED = ("provenance", "replicas", "requested")
LAYERS = {
    "task": task_layer,
    "text": text_layer,
    "decoder": chain_layer,
    "mass": chain_layer,
    "texts": embedder_layer,
    "translations": embedder_layer,
    "candidates": embedder_layer,
}


def config_of(source: str, given: dict, smoke: bool = False) -> AnyRun:
    """Returns the config of a run.

    Args:
        source: string. A recipe's name, `"pretraining"`, or the place of a TOML
            file, a config.json or a run.
        given: nested dict of fields and short names.
        smoke: bool. Whether to begin with tiny models on generated data.

    Raises:
        UsageError: (a `ValueError`) with a line for each mistake.
    """
    file = named_by(source)
    given = _over(file, given)
    if "kind" in file and not str(source).endswith(".toml"):  # complete
        tree = {name: given[name] for name in given if name not in NOTED}
        tree["student"] = student_named(tree, None)
    else:
        tree = _with_recipe(given, smoke)
    tree = short_names(tree)
    strategy = tree.get("training", {}).get("strategy")
    for step in tree.get("steps", {}).values() if strategy else ():
        if step.get("kind") != "augmentation":
            same = {"strategy": strategy}
            step["training"] = same | step.get("training", {})
    return _validated(ADAPTER.validate_python, tree, AnyRun)


def _with_recipe(given, smoke=False):
    """What is given over a recipe's layer, also in steps that name a recipe.

    Steps on a task have the data of the run, unless they name other data.
    """
    if smoke:
        given = _over(smoke_layer(given["recipe"], given), given)
    about, data = kind_of(given), given.get("data", {})
    data = data if about == "task" else {}

    def whole(step):
        if step.get("kind") == "augmentation":
            same = {one: data[one] for one in DATA if one in data}
            return _augmentation(merged({"data": same}, step))
        if step.get("recipe") == TEACHER:
            step = merged({"data": data}, step)
        return _with_recipe(step) if "recipe" in step else step

    steps = given.get("steps", {})
    given["steps"] = {name: whole(step) for name, step in steps.items()}
    return short_names(LAYERS[about](given))


def _over(layer, given):
    """A layer over another one. A student of another kind replaces it."""
    tree = merged(layer, given)
    students = [one.get("student", {}) for one in (layer, given)]
    kinds = [*map(kind_of_student, students)]
    if None not in kinds and kinds[0] != kinds[1]:
        tree["student"] = students[1]
    return tree


def augmentation_of(given: dict) -> Augmentation:
    """Returns the config of kdkit augment."""
    tree = _augmentation(given)
    return _validated(Augmentation.model_validate, tree, Augmentation)


def _augmentation(given):
    """The fields of augmented examples, with the task's number of copies."""
    data, _ = task_named(given.get("data", {}))
    copies = copies_for(data.get("task"), given.get("parity"))
    return {"num_copies": copies, **given, "data": data}


def _validated(validate, tree, kind):
    try:
        return validate(tree)
    except ValidationError as error:
        names = functools.partial(names_at, kind)
        raise UsageError(in_words(error, tree, names)) from error


def named_by(source: str) -> dict:
    """Returns the fields that a recipe's name or a file's place means."""
    named = {"recipe": source}
    if source not in (*RECIPES, TEXT):
        named = read_config(source)
    recipe = named.get("recipe")
    if recipe not in (*RECIPES, TEXT):
        raise unknown("recipe", recipe, (*RECIPES, TEXT))
    return named


def read_config(place) -> dict:
    """Returns the fields in a TOML or JSON file, or of a run's config."""
    path = pathlib.Path(place)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise unknown("recipe or file", str(place), RECIPES)
    load = tomllib.loads if path.suffix == ".toml" else json.loads
    return load(path.read_text("utf-8"))


def kind_of(given: dict) -> str:
    """Returns what a run with these fields is about, a key of `LAYERS`.

    `"decoder"` and `"mass"` are all steps of a recipe on text.
    """
    if given.get("kind") == "text" or given["recipe"] == TEXT:
        return "text"
    recipe, family = RECIPES[given["recipe"]], given.get("model", "bert")
    if family not in ("bert", *recipe.for_families):
        raise unknown("family", family, ("bert", *recipe.for_families))
    if recipe.trains_embedder:
        return recipe.stages[0].data
    return {"bert": "task", "mass": "mass"}.get(family, "decoder")
