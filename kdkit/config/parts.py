"""Parts of the layers of several kinds of run: stages, students, tasks."""

import pathlib

from kdkit.config.fields import listed, tasks
from kdkit.config.model import kind_of_student, student_of
from kdkit.data.word_vectors import word_vector_width
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS, find
from kdkit.recipes import RECIPES, Recipe
from kdkit.settings import merged, to_dict

TEXT = "pretraining"  # the recipe of language models
SHORT = ("epochs", "batch_size", "learning_rate")
TABLE = (
    *("train", "dev", "test"),
    *("label_column", "labels", "regression", "metrics"),
)


def recipe_named(given: dict) -> Recipe:
    """Returns the recipe in its variant; validation names an unknown one."""
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    return recipe.variant(parity if parity in recipe.parities else None)


def stages_named(stages, given: dict) -> dict:
    """Returns stages by name, all of them or those that are asked for."""
    known = {stage.name: to_dict(stage) for stage in stages}
    wanted, named = given.pop("only_stages", known), given.get("stages", {})
    for name in (*wanted, *named):
        is_new = "learning_rate" in named.get(name, {})
        if name not in known and not is_new:
            raise unknown("stage", name, known)
    given["stages"] = {
        name: one
        for name, one in named.items()
        if name in wanted or name not in known
    }
    return {name: known[name] for name in known if name in wanted}


def short_names(tree: dict) -> dict:
    """Returns a tree whose short names are fields of the only stage."""
    stages = tree.get("stages", {})
    for name in [one for one in SHORT if one in tree]:
        if len(stages) > 1:
            raise several(name, [f"stages.{stage}" for stage in stages])
        (stage,) = stages
        short = {name: tree.pop(name)}
        tree = merged(tree, {"stages": {stage: short}})
    return tree


def several(name: str, places) -> UsageError:
    """Returns the error for a short name that could mean several fields."""
    fields = ", ".join(f"{place}.{name}" for place in places)
    return UsageError(
        f"{name} matches several fields of this run. Expected one of {fields}."
    )


def student_named(given: dict, plan) -> dict:
    """Returns the student that is named, or what is named of a recipe's."""
    named = {**given.get("student", {})}
    if named.get("checkpoint") in PRESETS:
        plan = named.pop("checkpoint")
    usual = {} if plan is None else student_of(plan)
    if kind_of_student(named) in (None, kind_of_student(usual)):
        named = merged(usual, named)
    vectors = named.get("word_vectors")
    if vectors is not None and pathlib.Path(vectors).exists():
        named["embedding_dim"] = word_vector_width(vectors)
    return named


def task_named(fields: dict, teacher: str | None = None) -> tuple:
    """Returns the fields of data with the task that they name, and the task.

    Of a task that is not known, validation names what is wrong.
    """
    table, name, task = fields.get("table"), fields.get("task"), None
    if table is not None and {"text_columns", "label_column"} <= {*table}:
        known = {one: table[one] for one in TABLE if one in table}
        columns = listed(table["text_columns"])
        more = {"text_column": columns, "name": name, "teacher": teacher}
        task = tasks.from_table(**known, **more)
    elif name is not None and name.endswith(".toml"):
        task = tasks.from_toml(name, teacher)
    if task is None:
        return fields, tasks.TASKS.get(name, tasks.TASKS["sst2"])
    known = {"task": task.name, "table": to_dict(task.table)}
    return {**fields, **known}, task


def saved_size(place, *names) -> int | None:
    """Returns a size from the files of a model, `None` if it is unknown."""
    config = find(place).config
    for entries in (config.get("config"), config):
        for name in names if isinstance(entries, dict) else ():
            if isinstance(entries.get(name), int):
                return entries[name]
    return None
