"""A run's config from layers of dicts: a recipe, a file, then what is given.

Each layer overrides the one before, field by field; the result is validated
once. What is given may also have short names: `epochs`, `batch_size` and
`learning_rate` of the only stage, `only_stages`, fields of `every_stage`,
`quantize`, and what a run makes before it: `encoder`, `general`,
`augment_model`, `decoder`.
"""

import json
import pathlib
import tomllib

from kdkit.config.data import Augmentation
from kdkit.config.fields import names_at
from kdkit.config.runs import AnyRun
from kdkit.errors import unknown
from kdkit.recipes import RECIPES
from kdkit.recipes.tinybert import copies_for
from kdkit.runs.embedder_layer import embedder_layer
from kdkit.runs.parts import (
    TEACHER,
    TEXT,
    kind_of,
    over,
    over_stages,
    student_named,
    task_named,
)
from kdkit.runs.smoke import smoke_layer
from kdkit.runs.task_layer import task_layer, with_steps
from kdkit.runs.text_layers import chain_layer, text_layer
from kdkit.settings import from_dict, merged, to_dict

# In config.json, next to the fields.
NOTED = ("provenance", "replicas", "requested")
EXAMPLES = ("task", "data_dir", "table")
LAYERS = {
    "task": task_layer,
    "text": text_layer,
    "decoder": chain_layer,
    "mass": chain_layer,
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
    if "kind" in file and not str(source).endswith(".toml"):  # complete
        saved = {name: file[name] for name in file if name not in NOTED}
        tree = over_stages(saved["stages"], saved, given)
        tree["student"] = student_named(tree["student"])
    else:
        given = over(file, given)
        if smoke:
            given = over(smoke_layer(given), given)
        tree = _completed(given)
    return from_dict(AnyRun, tree, names_at)


def _completed(given):
    """What is given over the layer of a recipe, also in the steps.

    The layer's function takes its short names out of what is given.
    """
    given = {**given, "student": student_named(given.get("student", {}))}
    make = LAYERS.get(kind_of(given), embedder_layer)
    stages, layer = make(given)
    by_name = {stage.name: to_dict(stage) for stage in stages}
    tree = over_stages(by_name, layer, given)
    if tree["kind"] == "task":
        tree = with_steps(tree, stages)
    student = tree["student"]
    if student.get("copy_from") == "pretrained" and not tree.get("pretrained"):
        student["copy_from"] = "teacher"  # which has the encoder's layers
    steps = tree.get("steps", {})
    tree["steps"] = {name: _step(one, given) for name, one in steps.items()}
    return tree


def _step(step, run):
    """A step over the layer of its recipe.

    It has the devices of the run, and its examples unless it names others.
    """
    data = run.get("data", {})
    examples = {name: data[name] for name in EXAMPLES if name in data}
    if step.get("kind") == "augmentation":
        return _augmentation(merged({"data": examples}, step))
    if "recipe" not in step:
        return step
    strategy = run.get("training", {}).get("strategy")
    same = {
        "training": {"strategy": strategy},
        "every_stage": run.get("every_stage", {}),
    }
    is_named = {*EXAMPLES} & {*step.get("data", ())}
    if examples and step["recipe"] == TEACHER and not is_named:
        same["data"] = data
    return _completed(merged(same, step))


def augmentation_of(given: dict) -> Augmentation:
    """Returns the config of kdkit augment."""
    return from_dict(Augmentation, _augmentation(given), names_at)


def _augmentation(given):
    """The fields of augmented examples, with the task's number of copies."""
    data, _ = task_named(given.get("data", {}))
    copies = copies_for(data.get("task"), given.get("parity"))
    return {"num_copies": copies, **given, "data": data}


def named_by(source: str) -> dict:
    """Returns the fields that a recipe's name or a file's place means.

    A file is TOML or JSON; a run's place means its config.json.
    """
    known = (*RECIPES, TEXT)
    named = {}
    path = pathlib.Path(source)
    path = path / "config.json" if path.is_dir() else path
    if source not in known and path.is_file():
        load = tomllib.loads if path.suffix == ".toml" else json.loads
        named = load(path.read_text("utf-8"))
    recipe = named.setdefault("recipe", source)
    if recipe not in known:
        raise unknown("recipe or file", recipe, known)
    return named
