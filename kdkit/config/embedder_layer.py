"""The fields of sentence encoders, on texts, translations or candidates."""

from kdkit import models
from kdkit.config.parts import (
    recipe_named,
    saved_size,
    stages_named,
    student_named,
    task_named,
)
from kdkit.models import PRESETS, find
from kdkit.recipes.sentence_embedding import for_other_width
from kdkit.settings import merged

VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages
WIDTHS = ("hidden_dim", "hidden_size", "dim")  # in files of models


def embedder_layer(given: dict) -> dict:
    """Returns the fields of a sentence encoder."""
    recipe = recipe_named(given)
    kind, stages = recipe.stages[0].data, recipe.stages
    named, data = {**given.get("student", {})}, {**given.get("data", {})}
    chooses = kind == "candidates" and named.keys() & {"num_layers", "layers"}
    if chooses and named.get("checkpoint") not in (None, *PRESETS):
        named["copy_from"] = named.pop("checkpoint")
    student = student_named(given | {"student": named}, recipe.student)
    if kind != "candidates":  # vectors are compared
        width, wanted = _widths(student, given)
        if None not in (width, wanted) and width != wanted:
            stages = for_other_width(stages, is_wider=width > wanted)
    if "scored" in data:
        scored = {**data["scored"]}
        if "table" in scored:
            scored["table"] = {"regression": True} | scored["table"]
        data["scored"], _ = task_named(scored)
    if kind == "translations" and "checkpoint" not in student:
        data = {"tokenizer": VOCABULARY_SIZE} | data
    layer = {"kind": "embedder", "stages": stages_named(stages, given)}
    made = {"student": student, "data": {"kind": kind, **data}}
    return merged(layer, given) | made


def _widths(student, given):
    """The widths of a student's and a teacher's vectors, `None` if unknown."""
    width, pooling = student.get("hidden_dim"), given.get("pooling")
    if "checkpoint" in student:
        width = _width(student["checkpoint"], pooling)
    if width is None or "teacher" not in given:
        return None, None
    return width, _width(given["teacher"], pooling)


def _width(place, pooling):
    """The width of a saved encoder's vectors, `None` if it is unknown."""
    if not find(place).may_have_dense:
        return saved_size(place, *WIDTHS)
    return models.load_embedder(place, pooling).model.output_shape[-1]
