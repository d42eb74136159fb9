"""The fields of runs on text, and of the four steps of a recipe on text."""

from kdkit.config.fields import listed, located
from kdkit.config.model import kind_of_student, student_of
from kdkit.config.parts import (
    SHORT,
    TEXT,
    by_name,
    over_stages,
    recipe_named,
    several,
)
from kdkit.errors import UsageError, unknown
from kdkit.models import find
from kdkit.models.families import ALL_FAMILIES
from kdkit.recipes import pretraining
from kdkit.recipes.stages import without_teacher
from kdkit.settings import merged, to_dict

STEPS = ("pretrained", "teacher", "general")  # before the last run
# The stages of a run without a recipe, by the kind of text.
STAGES = {
    "corpus": pretraining.STAGES,
    "sentences": pretraining.FROM_SCRATCH,
    "pairs": pretraining.PAIRS,
}


def text_layer(given: dict) -> dict:
    """Returns the fields of a language model, with a teacher or without."""
    text = given.get("corpus") or {}
    family = _family(given)
    is_mass = family == "mass" or "languages" in text
    kind = text.get("kind", "sentences" if is_mass else "corpus")
    layer = {"kind": "text", "corpus": {"kind": kind}}
    stages = STAGES.get(kind, ())
    stage = given.pop("stage", None)
    if given["recipe"] != TEXT:
        recipe = recipe_named(given)
        if family != "bert":  # one of its stages
            if family not in recipe.for_families:
                raise unknown("family", family, recipe.for_families)
            recipe = recipe.for_families[family]
            usual = recipe.stages[-1 if kind == "pairs" else 0]
            stage = stage or usual.name
        stages = recipe.stages_on_text()
        layer["student"] = student_of(recipe.student)
    if stage is not None:
        given["only_stages"] = [stage]
    tree = over_stages(by_name(stages), layer, given)
    if tree["student"].get("copy_from") == "pretrained":
        tree["student"]["copy_from"] = "teacher"
    return tree


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
    types = {found.config.get("class_name"), found.config.get("model_type")}
    for family in ALL_FAMILIES.values():
        form = getattr(family.checkpoints, "model_type", "")
        known = {f"{family.class_name}Backbone", form or ""}
        is_one = types & known or place.startswith(f"{family.name}_")
        if family.is_decoder and is_one:
            return family.name
    return "bert"


def chain_layer(given: dict) -> dict:
    """Returns the four runs of a recipe on text alone, such as LightPAFF.

    The teacher on general text, the teacher on the task's text, the student on
    general text with the first teacher, and the student on the task's text with
    the second.
    """
    for name in SHORT:
        if name in given:
            places = [f"steps.{step}.stages.NAME" for step in STEPS]
            raise several(name, [*places, "stages.fine_tuning"])
    recipe = recipe_named(given)
    is_mass = given["model"] == "mass"
    on_general, on_task = recipe.for_families[given["model"]].stages
    kinds = ("sentences", "pairs") if is_mass else ("corpus", "corpus")
    general = {"kind": kinds[0], **given.pop("general_text", {})}
    text = {"kind": kinds[1], **given.pop("corpus", {})}
    if is_mass:
        _name_languages(text, general)
    if "sequence_length" in text:
        general["sequence_length"] = text["sequence_length"]
    decoder = given.pop("decoder", None)
    if isinstance(decoder, str):
        decoder = {"checkpoint": decoder}
    training = given.get("training", {})
    every_stage = given.pop("every_stage", {})
    places = {name: given.pop(name, f"run:{name}") for name in STEPS}

    def step(stage, corpus, student, **more):
        return {
            "recipe": TEXT,
            "kind": "text",
            "corpus": corpus,
            "student": student,
            "stage": stage.name,
            "stages": {stage.name: to_dict(stage) | every_stage},
            "training": {**training, "seed": 0},
            **more,
        }

    taught = {name: given[name] for name in ("recipe", "model")}
    start = {"checkpoint": places["pretrained"]}
    steps = {
        "pretrained": step(STAGES[kinds[0]][0], general, decoder),
        "teacher": step(without_teacher(on_task), text, start),
        "general": step(on_general, general, given.pop("student"), **taught),
    }
    steps["general"]["training"] = training
    steps["pretrained"]["tokenizer"] = given.pop("tokenizer", None)
    steps["general"]["teacher"] = places["pretrained"]
    if not is_mass:  # whose spans differ in each epoch
        steps["general"]["cache"] = given.get("cache")
    # A place replaces its step, and a step that no other reads is left out.
    needed = [name for name in STEPS if places[name] == f"run:{name}"]
    if needed == ["pretrained"]:
        needed = []
    start = {"checkpoint": places["general"]}
    last = step(on_task, text, start, teacher=places["teacher"])
    last["steps"] = {name: steps[name] for name in needed}
    return text_layer(merged(last, given))


def _name_languages(pairs, sentences):
    """Gives pairs their languages, which are the first of the sentences'."""
    languages = listed(sentences.get("languages", ()))
    if languages:
        pairs.setdefault("languages", [*dict.fromkeys(languages)][:2])
    files = map(located, listed(sentences.get("files", ())))
    known = dict(zip(files, languages, strict=False))
    sources = map(located, listed(pairs.get("files", ())))
    sides = listed(pairs.get("languages", ()))
    for file, side in zip(sources, sides, strict=False):
        if known.get(file, side) != side:
            raise UsageError(
                f"languages: {file} is {known[file]!r} among the sentences and "
                f"{side!r} in the pairs, whose languages come first."
            )
