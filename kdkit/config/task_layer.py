"""The fields of a run on a task, and of the runs that make its models."""

import dataclasses
import json
import pathlib

from kdkit.config.fields import listed, located
from kdkit.config.model import student_of
from kdkit.config.parts import (
    TEACHER,
    TEXT,
    by_name,
    one_length,
    over_stages,
    recipe_named,
    task_named,
)
from kdkit.models import find
from kdkit.recipes import fine_tuning
from kdkit.recipes.quantization import quantization_stage
from kdkit.settings import merged

# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000
# Fields of which each makes a stage's epochs the paper's.
OTHER_ROWS = ("parity", "augmented", "unlabeled")


def task_layer(given: dict) -> dict:
    """Returns the fields of a run on a task."""
    teacher = next(iter(listed(given.get("teacher", ()))), None)
    saved, origin = _of_run(teacher)
    data = given.get("data", {})
    if saved and not data.keys() & {"task", "table"}:
        data = saved | {"max_train_rows": None} | data
    data, task = task_named(data, teacher)
    recipe = recipe_named(given)
    stages, student = recipe.stages_for(task), recipe.student
    if given["recipe"] == TEACHER and not (teacher or "encoder" in given):
        stages, student = fine_tuning.STAGES, None
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.pop("quantize", None):
        stages = (*stages, quantization_stage(precision, task, stages))
    if not any(map(given.get, OTHER_ROWS)):
        stages = [*map(_with_enough_updates, stages)]
    layer = {
        "kind": "task",
        "data": {"sequence_length": task.sequence_length, **one_length(stages)},
        "student": {} if student is None else student_of(student),
    }
    if "corpus" in given:
        masking = {"share_of": recipe.mask_share_of}
        layer["corpus"] = {"kind": "corpus", "masking": masking}
    given = {**given, "data": data}
    tree = over_stages(by_name(stages), layer, given)
    return _with_steps(tree, stages, origin)


def _with_enough_updates(stage):
    if stage.data != "task":
        return stage
    return dataclasses.replace(stage, least_updates=LEAST_UPDATES)


def _of_run(teacher) -> tuple[dict, str | None]:
    """The data of a teacher's run, and the encoder that it began with.

    Empty and `None` for models that kdkit train-teacher did not make.
    """
    file = pathlib.Path(teacher or "/nothing", "config.json")
    config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if config.get("kind") != "task" or config["teacher"]:
        return {}, None
    origin = config["student"].get("checkpoint")
    path = pathlib.Path(origin or "/nothing")
    is_there = path.exists() or not path.is_absolute()  # a preset's name
    return config["data"], origin if is_there else None


def _with_steps(tree, stages, origin):
    """A tree with the runs that make what short names ask for."""
    steps = {}
    student = tree["student"]
    learns = any(one.objectives for one in stages if one.data == "corpus")
    copies = student.get("copy_from") == "pretrained"
    needs_origin = learns or copies or "general" in tree
    if "encoder" in tree:
        origin = tree.pop("encoder")
        same = {"training": {**tree.get("training", {}), "seed": 0}}
        if learns and find(origin).kind != "masked_lm":
            steps["pretrained"] = same | {
                "recipe": TEXT,
                "corpus": tree.get("corpus"),
                "student": {"checkpoint": origin},
            }
            origin = "run:pretrained"
        start = {"student": {"checkpoint": origin}}
        steps["teacher"] = same | {"recipe": TEACHER} | start
        tree.setdefault("teacher", ["run:teacher"])
    if needs_origin and origin is not None:
        tree.setdefault("pretrained", origin)
    elif copies and "teacher" in tree and "pretrained" not in tree:
        student["copy_from"] = "teacher"  # which has the encoder's layers
    if "augment_model" in tree:
        steps["augmented"] = {
            "kind": "augmentation",
            "model": tree.pop("augment_model"),
            "word_vectors": tree.pop("augment_vectors", None),
            "parity": "tinybert" if tree.get("parity") == "tinybert" else None,
        }
    if "general" in tree:
        place, text = located(tree.pop("general")), tree.pop("corpus", None)
        if text is not None:
            steps["general"] = {
                "recipe": tree["recipe"],
                "kind": "text",
                "parity": tree.get("parity"),
                "corpus": text,
                "student": student,
                "teacher": tree.get("pretrained"),
                "run_dir": place,
            }
        tree["student"] = {"checkpoint": place}
    return merged({"steps": steps}, tree)
