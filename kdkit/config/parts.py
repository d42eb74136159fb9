"""Parts of the layers of several kinds of run: stages, students, tasks."""

import pathlib

from kdkit.config.fields import listed, tasks
from kdkit.config.model import kind_of_student, student_of
from kdkit.data.word_vectors import word_vector_width
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES, Recipe
from kdkit.settings import merged, to_dict

TEXT = "pretraining"  # the recipe of language models
TEACHER = "fine_tuning"  # the recipe of teachers
SHORT = ("epochs", "batch_size", "learning_rate")
TABLE = (
    *("train", "dev", "test"),
    *("label_column", "labels", "regression", "metrics"),
)


def over(layer: dict, given: dict) -> dict:
    """Returns a layer over another one.

    A student of another kind replaces the layer's.
    """
    tree = merged(layer, given)
    students = [one.get("student", {}) for one in (layer, given)]
    kinds = [*map(kind_of_student, students)]
    if None not in kinds and kinds[0] != kinds[1]:
        tree["student"] = students[1]
    return tree


def over_stages(stages: dict, layer: dict, given: dict) -> dict:
    """Returns a layer over stages and another layer.

    `only_stages` and the short names of `given` are fields of the stages.
    """
    given = {**given}
    wanted = given.pop("only_stages", stages)
    named = given.pop("stages", {})
    for name in (*wanted, *named):
        is_new = "learning_rate" in named.get(name, {})
        if name not in stages and not is_new:
            raise unknown("stage", name, stages)
    chosen = [name for name in stages if name in wanted]
    chosen += [name for name in named if name not in stages]
    short = {name: given.pop(name) for name in SHORT if name in given}
    if short and len(chosen) != 1:
        raise several(next(iter(short)), [f"stages.{one}" for one in chosen])
    made = {}
    for name in chosen:
        fields = named.get(name, {}) | short
        if "epochs" in fields:  # as many as given, also on a small table
            fields = {"least_updates": 0, **fields}
        made[name] = merged(stages.get(name, {}), fields)
    return over(layer, given) | {"stages": made}


def several(name: str, places) -> UsageError:
    """Returns the error for a short name that could mean several fields."""
    fields = ", ".join(f"{place}.{name}" for place in places)
    return UsageError(
        f"{name} matches several fields of this run. Expected one of {fields}."
    )


def by_name(stages) -> dict:
    """Returns the fields of stages by name."""
    return {stage.name: to_dict(stage) for stage in stages}


def recipe_named(given: dict) -> Recipe:
    """Returns the recipe in its variant; validation names an unknown one."""
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    return recipe.variant(parity if parity in recipe.parities else None)


def student_named(student: dict) -> dict:
    """Returns the fields of the student that short names mean.

    A preset's name means its sizes, layers of a checkpoint are copied from it,
    and a BiLSTM is as wide as its word vectors.
    """
    student = {**student}
    place = student.get("checkpoint")
    if place in PRESETS:
        del student["checkpoint"]
        student = merged(student_of(place), student)
    elif place is not None and student.keys() & {"num_layers", "layers"}:
        student["copy_from"] = student.pop("checkpoint")
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
        known = {one: table[one] for one in TABLE if one in table}
        columns = listed(table["text_columns"])
        more = {"text_column": columns, "name": name, "teacher": teacher}
        task = tasks.from_table(**known, **more)
    elif name is not None and name.endswith(".toml"):
        task = tasks.from_toml(name, teacher)
    if task is None:
        return fields, tasks.TASKS.get(name, tasks.TASKS["sst2"])
    table = {**(table or {}), **to_dict(task.table)}  # with unknown fields
    return {**fields, "task": task.name, "table": table}, task


def one_length(stages) -> dict:
    """Returns the field of data for losses that count padding."""
    losses = [
        one.loss
        for stage in stages
        if stage.data == "task"
        for one in stage.objectives
    ]
    is_counted = any(loss.counts_padding for loss in losses)
    return {"num_buckets": None} if is_counted else {}
