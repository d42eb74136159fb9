"""The fields of a run on a task, and of the runs that make its models."""

import dataclasses
import json
import pathlib

from kdkit.config.fields import listed, located
from kdkit.config.model import student_of
from kdkit.models import find
from kdkit.recipes import fine_tuning
from kdkit.recipes.quantization import quantization_stage
from kdkit.runs.parts import (
    TEACHER,
    TEXT,
    first_run,
    one_length,
    recipe_named,
    task_named,
)
from kdkit.settings import merged

# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000
# Fields of which each makes a stage's epochs the paper's.
OTHER_ROWS = ("parity", "augmented", "unlabeled")


def task_layer(given: dict) -> tuple:
    """Returns the stages and the other fields of a run on a task."""
    teacher = next(iter(listed(given.get("teacher", ()))), None)
    saved, origin = _of_run(teacher)
    data = given.get("data", {})
    if saved and not data.keys() & {"task", "table"}:
        data = saved | {"max_train_rows": None} | data
    given["data"], task = task_named(data, teacher)
    recipe = recipe_named(given)
    stages, student = recipe.stages_for(task), student_of(recipe.student)
    if given["recipe"] == TEACHER and not (teacher or "encoder" in given):
        stages, student = fine_tuning.STAGES, {}
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.pop("quantize", None):
        stages = (*stages, quantization_stage(precision, task, stages))
    least = 0 if any(map(given.get, OTHER_ROWS)) else LEAST_UPDATES
    stages = [
        dataclasses.replace(stage, least_updates=least)
        if stage.data == "task"
        else stage
        for stage in stages
    ]
    layer = {
        "kind": "task",
        "data": {"sequence_length": task.sequence_length, **one_length(stages)},
        "student": student,
        "origin": origin,
    }
    if "corpus" in given:
        masking = {"share_of": recipe.mask_share_of}
        layer["corpus"] = {"kind": "corpus", "masking": masking}
    return stages, layer


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


def with_steps(tree: dict, stages) -> dict:
    """Returns a tree with the runs that make what short names ask for."""
    steps = {}
    short = ("origin", "encoder", "general", "augment_model")
    origin, encoder, general, augment = (tree.pop(one, None) for one in short)
    student, text = tree["student"], tree.get("corpus")
    learns = any(one.objectives for one in stages if one.data == "corpus")
    if encoder:
        origin = encoder
        if learns and find(encoder).kind != "masked_lm":
            origin = "run:pretrained"
            steps["pretrained"] = first_run(tree, TEXT, encoder, corpus=text)
        steps["teacher"] = first_run(tree, TEACHER, origin)
        tree.setdefault("teacher", ["run:teacher"])
    copies = student.get("copy_from") == "pretrained"
    if origin and (learns or copies or general):
        tree.setdefault("pretrained", origin)
    if augment:
        steps["augmented"] = {
            "kind": "augmentation",
            "model": augment,
            "word_vectors": tree.pop("augment_vectors", None),
            "parity": "tinybert" if tree.get("parity") == "tinybert" else None,
        }
    if general and text:
        steps["general"] = {
            "kind": "text",
            **{name: tree.get(name) for name in ("recipe", "parity")},
            "corpus": tree.pop("corpus"),
            "student": student,
            "teacher": tree.get("pretrained"),
            "run_dir": general,
        }
    if general:
        tree["student"] = {"checkpoint": located(general)}
    return merged({"steps": steps}, tree)
