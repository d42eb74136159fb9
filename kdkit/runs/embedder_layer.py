"""The fields of sentence encoders, on texts, translations or candidates."""

from kdkit.config.model import student_of
from kdkit.runs.parts import recipe_named, task_named
from kdkit.settings import merged

VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages


def embedder_layer(given: dict) -> tuple:
    """Returns the stages and the other fields of a sentence encoder."""
    recipe = recipe_named(given)
    kind = recipe.stages[0].data
    data = given["data"] = {"kind": kind, **given.get("data", {})}
    if "scored" in data:
        scored = data["scored"]
        if "table" in scored:
            scored = merged({"table": {"regression": True}}, scored)
        data["scored"], _ = task_named(scored)
    layer = {"kind": "embedder", "student": student_of(recipe.student)}
    if kind == "translations" and "checkpoint" not in given["student"]:
        layer["data"] = {"tokenizer": VOCABULARY_SIZE}
    return recipe.stages, layer
