"""The fields of runs on text, and of the four steps of a recipe on text."""

from kdkit.config.fields import listed
from kdkit.config.model import kind_of_student, student_of
from kdkit.models import find
from kdkit.models.families import DECODERS
from kdkit.recipes import pretraining
from kdkit.recipes.stages import without_teacher
from kdkit.runs.parts import (
    TEXT,
    first_run,
    of_family,
    recipe_named,
)
from kdkit.settings import to_dict

STEPS = ("pretrained", "teacher", "general")  # before the last run
# The stages of a run without a recipe, by the kind of text.
STAGES = {
    "corpus": pretraining.STAGES,
    "sentences": pretraining.FROM_SCRATCH,
    "pairs": pretraining.PAIRS,
}


def text_layer(given: dict) -> tuple:
    """Returns the stages and the other fields of a language model."""
    text, family = given.get("corpus") or {}, _family(given)
    is_mass = family == "mass" or "languages" in text
    kind = text.get("kind", "sentences" if is_mass else "corpus")
    layer = {"kind": "text", "corpus": {"kind": kind}}
    stages = STAGES.get(kind, ())
    if given["recipe"] != TEXT:
        recipe = of_family(recipe_named(given), family)
        if family != "bert":  # one of its stages
            usual = recipe.stages[-1 if kind == "pairs" else 0].name
            given.setdefault("only_stages", usual)
        stages = recipe.stages_on_text()
        layer["student"] = student_of(recipe.student)
    return stages, layer


def _family(given):
    """The family of a decoder, "mass", or "bert" for any encoder."""
    student = given["student"]
    place = given.get("teacher") or student.get("checkpoint")
    if "model" in given:
        return given.pop("model")
    if kind_of_student(student) == "Mass":
        return "mass"
    if place is None:
        return "bert"
    found = find(place)
    if found.kind == "encoder_decoder":
        return "mass"
    names = {*map(found.config.get, ("class_name", "model_type"))}
    names.add(place.partition("_")[0])
    for name, family in DECODERS.items():
        form = getattr(family.checkpoints, "model_type", name)
        if names & {name, f"{family.class_name}Backbone", form}:
            return name
    return "bert"


def chain_layer(given: dict) -> tuple:
    """Returns the layer of a recipe on text alone, such as LightPAFF.

    The steps are the teacher on general text, the teacher on the task's text,
    and the student on general text with the first teacher. The run itself is
    the student on the task's text with the second.
    """
    family = given.pop("model")
    *_, on_task = of_family(recipe_named(given), family).stages
    general, text = given.pop("general_text", {}), given.pop("corpus", {})
    text = {"kind": "pairs" if family == "mass" else "corpus", **text}
    if languages := listed(general.get("languages", ())):
        text.setdefault("languages", [*dict.fromkeys(languages)][:2])
    if "sequence_length" in text:
        general = {**general, "sequence_length": text["sequence_length"]}
    places = {name: given.pop(name, f"run:{name}") for name in STEPS}
    start, decoder = places["pretrained"], given.pop("decoder", {})
    stage = to_dict(without_teacher(on_task)) | given.get("every_stage", {})
    steps = {
        "pretrained": first_run(given, TEXT, decoder, corpus=general),
        "teacher": first_run(given, TEXT, start, corpus=text),
        "general": {
            "kind": "text",
            "recipe": given["recipe"],
            "model": family,
            "training": given.get("training", {}),
            "corpus": general,
            "student": given.pop("student"),
            "teacher": start,
        },
    }
    steps["pretrained"]["tokenizer"] = given.pop("tokenizer", None)
    steps["teacher"]["stages"] = {on_task.name: stage}
    steps["teacher"]["only_stages"] = on_task.name
    if family != "mass":  # whose spans differ in each epoch
        steps["general"]["cache"] = given.get("cache")
    # A place replaces its step, and a step that no other reads is left out.
    needed = [name for name in STEPS if places[name] == f"run:{name}"]
    if needed == ["pretrained"]:
        needed = []
    layer = {
        "kind": "text",
        "corpus": text,
        "student": {"checkpoint": places["general"]},
        "teacher": places["teacher"],
        "steps": {name: steps[name] for name in needed},
    }
    return [on_task], layer
