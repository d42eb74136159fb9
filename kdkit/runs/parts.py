"""Parts of the layers of several kinds of run: stages, students, tasks."""

import pathlib

from kdkit.config.fields import fields_of, listed, tasks
from kdkit.config.model import kind_of_student, student_of
from kdkit.data import LabeledTable
from kdkit.data.word_vectors import word_vector_width
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES, Recipe
from kdkit.settings import merged, to_dict

TEXT = "pretraining"  # the recipe of language models
TEACHER = "fine_tuning"  # the recipe of teachers
SHORT = ("epochs", "batch_size", "learning_rate")
COMPLETED = ("text_columns", "class_names")  # by a task of the other columns


def kind_of(given: dict) -> str:
    """Returns what a run with these fields is about, a key of `NAMES`.

    `"decoder"` and `"mass"` are all steps of a recipe on text.
    """
    if given.get("kind") == "text" or given["recipe"] == TEXT:
        return "text"
    family = given.get("model", "bert")
    recipe = of_family(RECIPES[given["recipe"]], family)
    if recipe.trains_embedder:
        return recipe.stages[0].data
    return {"bert": "task", "mass": "mass"}.get(family, "decoder")


def of_family(recipe: Recipe, family: str) -> Recipe:
    """Returns the recipe for the models of a family."""
    recipes = {"bert": recipe, **recipe.for_families}
    if family not in recipes:
        raise unknown("family", family, recipes)
    return recipes[family]


def recipe_named(given: dict) -> Recipe:
    """Returns the recipe in its variant; validation names an unknown one."""
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    return recipe.variant(parity if parity in recipe.parities else None)


def over(layer: dict, given: dict) -> dict:
    """Returns a layer over another one.

    A student of another kind replaces the layer's.
    """
    tree = merged(layer, given)
    kinds = [kind_of_student(one.get("student", {})) for one in (layer, given)]
    if None not in kinds and kinds[0] != kinds[1]:
        tree["student"] = given["student"]
    return tree


def over_stages(stages: dict, layer: dict, given: dict) -> dict:
    """Returns a layer over stages and another layer.

    `only_stages`, `every_stage` and the short names of `given` are about the
    stages. In the place of an unknown stage is its error, for validation.
    """
    given = {**given}
    named, every = given.pop("stages", {}), given.pop("every_stage", {})
    wanted = listed(given.pop("only_stages", [*stages]))
    short = {name: given.pop(name) for name in SHORT if name in given}
    names = dict.fromkeys([*stages, *named, *wanted])
    chosen = [one for one in names if one in wanted or one not in stages]
    places = [f"stages.{one}" for one in chosen]
    if layer["kind"] == "text":
        places += [f"steps.{one}.stages.NAME" for one in layer.get("steps", ())]
    if short and len(places) != 1:
        name = next(iter(short))
        fields = ", ".join(f"{place}.{name}" for place in places)
        raise UsageError(
            f"{name} matches several fields of this run. Expected one of "
            f"{fields}."
        )
    made = {}
    for name in chosen:
        fields = named.get(name, {}) | short
        if "epochs" in fields:  # as many as given, also on a small table
            fields = {"least_updates": 0, **fields}
        known = stages[name] | every if name in stages else {}
        made[name] = merged(known, fields)
        if "learning_rate" not in made[name]:
            made[name] = unknown("stage", name, stages)
    return over(layer, given) | {"stages": made}


def first_run(run: dict, recipe: str, start, **fields) -> dict:
    """Returns a run of a place or a student before a run, trained like it."""
    training = {**run.get("training", {}), "seed": 0}
    if isinstance(start, str):
        start = {"checkpoint": start}
    return {"recipe": recipe, "training": training, "student": start, **fields}


def student_named(student: dict) -> dict:
    """Returns the fields of the student that short names mean.

    A preset's name means its sizes, layers of a checkpoint are copied from it,
    and a BiLSTM is as wide as its word vectors.
    """
    student = {**student}
    place = student.pop("checkpoint", None)
    if place in PRESETS:
        student = student_of(place) | student
    elif place is not None:
        is_part = student.keys() & {"num_layers", "layers"}
        student["copy_from" if is_part else "checkpoint"] = place
    vectors = student.get("word_vectors")
    if vectors is not None and pathlib.Path(vectors).exists():
        student["embedding_dim"] = word_vector_width(vectors)
    return student


def task_named(fields: dict, teacher: str | None = None) -> tuple:
    """Returns the fields of data with the task that they name, and the task.

    Of a task that is not known, validation names what is wrong.
    """
    table, name, task = fields.get("table"), fields.get("task"), None
    if table is not None and {"text_columns", "label_column"} <= {*table}:
        known = fields_of(LabeledTable).keys() & table.keys() - {*COMPLETED}
        task = tasks.from_table(
            **{one: table[one] for one in known},
            text_column=listed(table["text_columns"]),
            name=name,
            teacher=teacher,
        )
    elif name is not None and name.endswith(".toml"):
        task = tasks.from_toml(name, teacher)
    if task is None:
        return fields, tasks.TASKS.get(name, tasks.TASKS["sst2"])
    table = {**(table or {}), **to_dict(task.table)}  # with unknown fields
    return {**fields, "task": task.name, "table": table}, task


def one_length(stages) -> dict:
    """Returns the field of data for losses that count padding."""
    is_counted = any(
        one.loss.counts_padding
        for stage in stages
        if stage.data == "task"
        for one in stage.objectives
    )
    return {"num_buckets": None} if is_counted else {}
