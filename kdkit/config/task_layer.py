"""The fields of a run on a task, and of the runs that make its models."""

import json
import pathlib

from kdkit.config.fields import listed, located
from kdkit.config.parts import (
    TEXT,
    recipe_named,
    short_names,
    stages_named,
    student_named,
    task_named,
)
from kdkit.config.smoke import one_length
from kdkit.models import find
from kdkit.recipes import fine_tuning, pretraining
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.tinybert import copies_for
from kdkit.settings import merged

TEACHER = "fine_tuning"  # the recipe of teachers
DATA = ("task", "data_dir", "table")  # what examples there are
# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000


def task_layer(given: dict) -> dict:
    """Returns the fields of a run on a task."""
    teacher = next(iter(listed(given.get("teacher", ()))), None)
    saved, recipe = _saved_run(teacher), recipe_named(given)
    data = given.get("data", {})
    if saved and not data.keys() & {"task", "table"}:
        data = saved["data"] | {"max_train_rows": None} | data
    given["data"], task = task_named(data, teacher)
    stages, plan = recipe.stages_for(task), recipe.student
    if given["recipe"] == TEACHER and not (teacher or "encoder" in given):
        stages, plan = fine_tuning.STAGES, None
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.pop("quantize", None):
        stages = (*stages, quantization_stage(precision, task, stages))
    layer = {
        "kind": "task",
        "stages": stages_named(stages, given),
        "data": {"sequence_length": task.sequence_length, **one_length(stages)},
    }
    if not any(map(given.get, ("parity", "augmented", "unlabeled"))):
        _ask_for_updates(layer["stages"], given)
    given["student"] = student_named(given, plan)
    learns = any(one.objectives for one in stages if one.data == "corpus")
    _name_pretrained(given, learns, saved, teacher)
    if "corpus" in given:
        share_of = {"share_of": recipe.mask_share_of}
        layer["corpus"] = {"kind": "corpus", "masking": share_of}
    tree = short_names(merged(layer, given))
    for name, change in (
        ("augment_model", _with_augmented),
        ("encoder", lambda tree: _with_encoder(tree, learns)),
        ("general", lambda tree: _with_general(tree, recipe)),
    ):
        tree = change(tree) if name in tree else tree
    return tree


def _saved_run(teacher) -> dict:
    """The config of a run of kdkit train-teacher, empty for other models."""
    file = pathlib.Path(teacher or "", "config.json")
    config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    is_one = config.get("kind") == "task" and not config["teacher"]
    return config if is_one and teacher else {}


def _ask_for_updates(stages, given):
    """Asks stages on a task, whose epochs are not given, for enough updates."""
    for name, stage in stages.items():
        named = {*given, *given.get("stages", {}).get(name, ())}
        if stage["data"] == "task" and "epochs" not in named:
            stage["least_updates"] = LEAST_UPDATES


def _name_pretrained(given, learns, saved, teacher):
    """Names the encoder before fine-tuning, if the run reads one.

    Without one, a student has the layers of the fine-tuned teacher.
    """
    student, origin = given["student"], None
    copies = student.get("copy_from") == "pretrained"
    if saved:
        origin = saved["student"].get("checkpoint")
    if origin and origin.startswith("run:"):  # a step before the teacher
        origin = f"{pathlib.Path(teacher).parent / origin[4:]}_run"
    path = pathlib.Path(origin or "/nothing")
    is_there = path.exists() or not path.is_absolute()  # a preset's name
    if is_there and (learns or copies or "general" in given):
        given.setdefault("pretrained", origin)
    if copies and teacher and not given.keys() & {"pretrained", "encoder"}:
        student["copy_from"] = "teacher"


def _with_augmented(tree):
    """A tree with the step that makes a missing file of copies."""
    parity = "tinybert" if tree.get("parity") == "tinybert" else None
    data = tree["data"]
    step = {
        "kind": "augmentation",
        "data": {name: data[name] for name in DATA if name in data},
        "model": tree.pop("augment_model"),
        "word_vectors": tree.pop("augment_vectors", None),
        "parity": parity,
        "num_copies": copies_for(data.get("task"), parity),
    }
    return merged({"steps": {"augmented": step}}, tree)


def _with_encoder(tree, learns):
    """A tree with a teacher that the run fine-tunes first from an encoder."""
    start, steps, student = tree.pop("encoder"), {}, tree["student"]
    same = {"training": {**tree.get("training", {}), "seed": 0}}
    if learns and find(start).kind != "masked_lm":
        steps["pretrained"] = same | {
            "recipe": TEXT,
            "kind": "text",
            "corpus": tree.get("corpus"),
            "student": {"checkpoint": start},
            "stages": stages_named(pretraining.STAGES, {}),
        }
        start = "run:pretrained"
    stages = stages_named(fine_tuning.STAGES, {})
    _ask_for_updates(stages, {})
    steps["teacher"] = same | {
        "recipe": TEACHER,
        "kind": "task",
        "data": tree["data"],
        "student": {"checkpoint": start},
        "stages": stages,
    }
    made = {"teacher": ["run:teacher"], "steps": steps}
    if "copy_from" in student:
        tree["student"] = student | {"copy_from": "pretrained"}
    if learns or "copy_from" in student or "general" in tree:
        made["pretrained"] = start
    return merged(made, tree)


def _with_general(tree, recipe):
    """A tree whose student learns from the pretrained encoder first."""
    place, text = located(tree.pop("general")), tree.pop("corpus", None)
    student = tree["student"]
    if "copy_from" in student:
        student = student | {"copy_from": "teacher"}
    if text is not None:
        step = {
            "recipe": recipe.name,
            "kind": "text",
            "corpus": text,
            "student": student,
            "teacher": tree.get("pretrained"),
            "stages": stages_named(recipe.stages_on_text(), {}),
            "run_dir": place,
        }
        tree = merged({"steps": {"general": step}}, tree)
    return tree | {"student": {"checkpoint": place}}
