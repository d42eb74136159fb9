"""The fields of runs on text, and of the four steps of a recipe on text."""

from kdkit.config.fields import listed
from kdkit.config.model import kind_of_student, student_of
from kdkit.config.parts import (
    TEXT,
    of_family,
    recipe_named,
)
from kdkit.models import find
from kdkit.models.families import DECODERS
from kdkit.recipes import pretraining
from kdkit.recipes.stages import without_teacher
from kdkit.settings import to_dict

# The four runs of a recipe on text: the text, the start and the teacher of
# each, which are what is given or the run of that name.
CHAIN = {
    "pretrained": ("general_text", "decoder", None),
    "teacher": ("corpus", "pretrained", None),
    "general": ("general_text", "student", "pretrained"),
    "last": ("corpus", "general", "teacher"),
}
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
    family, training = given.pop("model"), given.get("training", {})
    *_, on_task = of_family(recipe_named(given), family).stages
    general, text = given.pop("general_text", {}), given.pop("corpus", {})
    text = {"kind": "pairs" if family == "mass" else "corpus", **text}
    if languages := listed(general.get("languages", ())):
        text.setdefault("languages", [*dict.fromkeys(languages)][:2])
    if "sequence_length" in text:
        general = {**general, "sequence_length": text["sequence_length"]}
    places = {name: f"run:{name}" for name in CHAIN}
    found = {"decoder": {}, **places, **given}
    found |= {"general_text": general, "corpus": text}
    for name in ("decoder", "student", *CHAIN):
        given.pop(name, None)
    runs = {}
    for name, (corpus, start, teacher) in CHAIN.items():
        student = found[start]
        if isinstance(student, str):
            student = {"checkpoint": student}
        runs[name] = {
            "kind": "text",
            "recipe": given["recipe"] if teacher else TEXT,
            "training": training if teacher else {**training, "seed": 0},
            "corpus": found[corpus],
            "student": student,
            "teacher": found.get(teacher),
        }
    runs["pretrained"]["tokenizer"] = given.pop("tokenizer", None)
    stage = to_dict(without_teacher(on_task)) | given.get("every_stage", {})
    runs["teacher"]["stages"] = {on_task.name: stage}
    runs["teacher"]["only_stages"] = on_task.name
    runs["general"]["model"] = family
    if family != "mass":  # whose spans differ in each epoch
        runs["general"]["cache"] = given.get("cache")
    # A place replaces its run, and a run that no other reads is left out.
    layer = runs.pop("last")
    steps = [name for name in runs if found[name] == places[name]]
    if steps != ["pretrained"]:
        layer["steps"] = {name: runs[name] for name in steps}
    return [on_task], layer
