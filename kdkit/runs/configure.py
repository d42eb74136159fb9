"""A run's config from layers of dicts: a recipe, a file, then what is given.

Each layer overrides the one before, field by field; the result is validated
once. What is given may also have short names: `epochs`, `batch_size` and
`learning_rate` of the only stage, `only_stages`, fields of `every_stage`, the
family of the `model`, `quantize`, and what a run makes before it: `encoder`,
`general`, `augment_model`, `decoder`.
"""

from kdkit.config.data import Augmentation
from kdkit.config.fields import listed, names_at
from kdkit.config.runs import AnyRun
from kdkit.errors import UsageError, unknown
from kdkit.recipes import RECIPES
from kdkit.recipes.tinybert import copies_for
from kdkit.runs.layers import (
    TEXT,
    chain_layer,
    embedder_layer,
    kind_of,
    only,
    over,
    over_stages,
    read_fields,
    student_named,
    task_layer,
    task_named,
    text_layer,
    with_steps,
    without,
)
from kdkit.runs.names import merged
from kdkit.runs.smoke import smoke_layer
from kdkit.settings import from_dict, to_dict

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
        for name in ("recipe", "parity", "kind"):
            if given.get(name, file.get(name)) != file.get(name):
                raise UsageError(
                    f"{name} names the stages in {source} and does not change "
                    "them. Pass a recipe in place of the file."
                )
        tree = over_stages(without(file, *NOTED), given)
        named = only(given.get("data", {}), "task", "table")
        if named and tree["kind"] == "task":
            teacher = next(iter(listed(tree.get("teacher", ()))), None)
            tree["data"], _ = task_named(tree["data"], teacher)
        tree["student"] = student_named(tree["student"])
    else:
        given = over(file, given)
        is_made = "general" in given and not given.get("corpus")
        if is_made and given.get("student"):
            raise UsageError(
                "The student is that of --general. Remove its other fields, or "
                "name a corpus to make it from."
            )
        if smoke:
            given = over(smoke_layer(given), given)
        tree = _completed(given)
    return from_dict(AnyRun, tree, names_at)


def named_by(source: str) -> dict:
    """Returns the fields that a recipe's name or a file's place means.

    A file is TOML or JSON; a run's place means its config.json.
    """
    known = (*RECIPES, TEXT)
    fields = {} if source in known else read_fields(source)
    recipe = fields.setdefault("recipe", source)
    if recipe not in known:
        raise unknown("recipe or file", recipe, known)
    return fields


def _completed(given):
    """What is given over the layer of its recipe, also in the steps."""
    given = given | {"student": student_named(given.get("student", {}))}
    make = LAYERS.get(kind_of(given), embedder_layer)
    stages, layer, given = make(given)
    by_name = {stage.name: to_dict(stage) for stage in stages}
    layer = layer | {"stages": by_name}
    tree = over_stages(layer, without(given, "model"))
    if tree["kind"] == "task":
        tree = with_steps(tree, stages)
    student = tree["student"]
    if student.get("copy_from") == "pretrained" and not tree.get("pretrained"):
        student["copy_from"] = "teacher"  # which has the encoder's layers
    if "copy_from" in student:  # the recipe's maps, not those of an arm
        maps = [one.layer_map for stage in stages for one in stage.objectives]
        usual = "uniform" if "uniform" in maps else "spread"
        student.setdefault("rule", usual)
    steps = tree.get("steps", {})
    tree["steps"] = {name: _step(one, given) for name, one in steps.items()}
    return tree


def _step(step, run):
    """A step over the layer of its recipe.

    It has the devices of the run, and its examples unless it names others.
    """
    examples = only(run.get("data", {}), *EXAMPLES)
    if step.get("kind") == "augmentation":
        return _augmentation(merged({"data": examples}, step))
    if "recipe" not in step:
        return step
    same = only(run, "every_stage")
    same["training"] = only(run.get("training", {}), "strategy")
    is_named = only(step.get("data", {}), *EXAMPLES)
    if examples and not is_named and kind_of(step) == "task":
        same["data"] = run["data"]
    return _completed(merged(same, step))


def augmentation_of(given: dict) -> Augmentation:
    """Returns the config of kdkit augment."""
    return from_dict(Augmentation, _augmentation(given), names_at)


def _augmentation(given):
    """The fields of augmented examples, with the task's number of copies."""
    data, _ = task_named(given.get("data", {}))
    copies = copies_for(data.get("task"), given.get("parity"))
    return {"num_copies": copies, **given, "data": data}
