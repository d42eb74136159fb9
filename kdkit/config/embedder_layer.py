"""The fields of sentence encoders, on texts, translations or candidates."""

from kdkit.config.model import student_of
from kdkit.config.parts import by_name, over_stages, recipe_named, task_named

VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages


def embedder_layer(given: dict) -> dict:
    """Returns the fields of a sentence encoder."""
    recipe = recipe_named(given)
    data = {**given.get("data", {})}
    kind = recipe.stages[0].data
    if "scored" in data:
        scored = {**data["scored"]}
        if "table" in scored:
            scored["table"] = {"regression": True} | scored["table"]
        data["scored"], _ = task_named(scored)
    if kind == "translations" and "checkpoint" not in given["student"]:
        data = {"tokenizer": VOCABULARY_SIZE} | data
    layer = {"kind": "embedder", "student": student_of(recipe.student)}
    data = {"kind": kind, **data}
    given = {**given, "data": data}
    return over_stages(by_name(recipe.stages), layer, given)
