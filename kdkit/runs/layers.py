"""What a recipe decides for each kind of run: the layer below what is given.

The function of a kind returns the recipe's stages, the other fields of the
layer, and what is given without the short names that it has read.
"""

import dataclasses
import json
import os
import pathlib
import tomllib

from kdkit.config.fields import fields_of, listed, located, tasks
from kdkit.config.model import kind_of_student, student_of
from kdkit.data import LabeledTable
from kdkit.data.word_vectors import word_vector_width
from kdkit.errors import unknown
from kdkit.models import PRESETS, find
from kdkit.models.families import DECODERS
from kdkit.recipes import RECIPES, Recipe, fine_tuning, pretraining
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.stages import without_teacher
from kdkit.runs.names import merged
from kdkit.settings import to_dict

TEXT = "pretraining"  # the recipe of language models
TEACHER = "fine_tuning"  # the recipe of teachers
SHORT = ("epochs", "batch_size", "learning_rate")
COMPLETED = ("text_columns", "class_names")  # by a task of the other columns
# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000
# Fields of which each makes a stage's epochs the paper's.
OTHER_ROWS = ("parity", "augmented", "unlabeled")
# The runs before the last one of a recipe on text.
STEPS = ("pretrained", "teacher", "general")
# The stages of a run on text without a recipe, by the kind of text.
STAGES = {
    "corpus": pretraining.STAGES,
    "sentences": pretraining.FROM_SCRATCH,
    "pairs": pretraining.PAIRS,
}
VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages


def read_fields(place: str) -> dict:
    """Returns the fields in TOML or JSON, or of a run; without a file none."""
    path = pathlib.Path(place)
    path = path / "config.json" if path.is_dir() else path
    load = tomllib.loads if path.suffix == ".toml" else json.loads
    return load(path.read_text("utf-8")) if path.is_file() else {}


def kind_of(given: dict) -> str:
    """Returns what a run with these fields is about, a key of `NAMES`.

    `"decoder"` and `"mass"` are all steps of a recipe on text.
    """
    if given.get("kind") == "text" or given["recipe"] == TEXT:
        return "text"
    recipe = recipe_of(given)
    if recipe.trains_embedder:
        return recipe.stages[0].data
    family = given.get("model", "bert")
    return {"bert": "task", "mass": "mass"}.get(family, "decoder")


def recipe_of(given: dict) -> Recipe:
    """Returns the recipe in its variant, for the family of models.

    Validation names an unknown variant.
    """
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    recipe = recipe.variant(parity if parity in recipe.parities else None)
    recipes = {"bert": recipe, **recipe.for_families}
    family = given.get("model", "bert")
    if family not in recipes:
        raise unknown("family", family, recipes)
    return recipes[family]


def over(layer: dict, given: dict) -> dict:
    """Returns what is given over a layer.

    A student of another kind replaces the layer's, a task its table, and the
    first table its task.
    """
    known, new = layer.get("data", {}), given.get("data", {})
    if "table" not in new and _is_known(new.get("task")):
        layer = layer | {"data": without(known, "table")}
    if "table" in new and "task" not in new and _is_known(known.get("task")):
        layer = layer | {"data": without(known, "task", "data_dir")}
    tree = merged(layer, given)
    kinds = [kind_of_student(one.get("student", {})) for one in (layer, given)]
    if None not in kinds and kinds[0] != kinds[1]:
        tree["student"] = given["student"]
    return tree


def _is_known(task):
    """Whether a name means a task, not a table that is called so."""
    return task in tasks.TASKS or str(task).endswith(".toml")


def over_stages(layer: dict, given: dict) -> dict:
    """Returns what is given over a layer with stages by name.

    `only_stages`, `every_stage` and the short names of `given` are about the
    stages. In the place of an unknown stage is its error, for validation.
    """
    stages = layer["stages"]
    named, every = (given.get(one, {}) for one in ("stages", "every_stage"))
    wanted = listed(given.get("only_stages", [*stages]))
    short = only(given, *SHORT)
    names = dict.fromkeys([*stages, *named, *wanted])
    chosen = [one for one in names if one in wanted or one not in stages]
    places = [f"stages.{one}" for one in chosen]
    if layer["kind"] == "text":
        places += [f"steps.{one}.stages.NAME" for one in layer.get("steps", ())]
    if len(places) > 1:
        for name in short:  # a field of each of them
            raise unknown("field", name, [f"{one}.{name}" for one in places])
    made = {}
    for name in chosen:
        fields = named.get(name, {}) | short
        # As many epochs as given, also on a small table.
        if "epochs" in every or "epochs" in fields:
            fields = {"least_updates": every.get("least_updates", 0), **fields}
        known = stages[name] | every if name in stages else {}
        made[name] = merged(known, fields)
        if "learning_rate" not in made[name]:
            made[name] = unknown("stage", name, stages)
    others = without(given, "only_stages", "every_stage", *SHORT)
    return over(layer, others) | {"stages": made}


def without(given: dict, *names: str) -> dict:
    """Returns what is given without some names."""
    return {name: given[name] for name in given if name not in names}


def only(given: dict, *names: str) -> dict:
    """Returns what is given by some names."""
    return {name: given[name] for name in names if name in given}


def student_named(student: dict) -> dict:
    """Returns the fields of the student that short names mean.

    A preset's name means its sizes, layers of a checkpoint are copied from it,
    and a BiLSTM is as wide as its word vectors.
    """
    student = {**student}
    place = student.pop("checkpoint", None)
    if place in PRESETS:
        student = student_of(place) | student
    elif place is not None:
        is_part = student.keys() & {"num_layers", "layers"}
        student["copy_from" if is_part else "checkpoint"] = place
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
        known = fields_of(LabeledTable).keys() & table.keys() - {*COMPLETED}
        task = tasks.from_table(
            **{one: table[one] for one in known},
            text_column=listed(table["text_columns"]),
            name=name,
            teacher=teacher,
        )
    elif name is not None and name.endswith(".toml"):
        task = tasks.from_toml(name, teacher)
    if task is None:
        return fields, tasks.TASKS.get(name, tasks.TASKS["sst2"])
    table = {**(table or {}), **to_dict(task.table)}  # with unknown fields
    return {**fields, "task": task.name, "table": table}, task


def one_length(stages) -> dict:
    """Returns the field of data for losses that count padding."""
    objectives = [one for stage in stages for one in stage.objectives]
    is_counted = any(one.loss.counts_padding for one in objectives)
    return {"num_buckets": None} if is_counted else {}


def task_layer(given: dict) -> tuple:
    """Returns the layer of a run on a task."""
    teacher = next(iter(listed(given.get("teacher", ()))), None)
    saved, origin = _of_run(teacher)
    data = given.get("data", {})
    if saved and not data.keys() & {"task", "table"}:
        data = saved | data
    data, task = task_named(data, teacher)
    recipe = recipe_of(given)
    stages, student = recipe.stages_for(task), student_of(recipe.student)
    if given["recipe"] == TEACHER and not (teacher or "encoder" in given):
        stages, student = fine_tuning.STAGES, {}
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.get("quantize"):
        stages = (*stages, quantization_stage(precision, task, stages))
    least = 0 if any(map(given.get, OTHER_ROWS)) else LEAST_UPDATES
    stages = [
        dataclasses.replace(one, least_updates=least * (one.data == "task"))
        for one in stages
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
    return stages, layer, without(given, "quantize") | {"data": data}


def _of_run(teacher) -> tuple[dict, str | None]:
    """A teacher's data, without how it was read, and the encoder before it.

    Empty and `None` for models that kdkit train-teacher did not make.
    """
    config = read_fields(f"{teacher}/config.json")
    if config.get("kind") != "task" or config["teacher"]:
        return {}, None
    origin = config["student"].get("checkpoint", "")
    is_there = os.path.exists(origin) or not os.path.isabs(origin)
    data = without(config["data"], "max_train_rows", "num_buckets")
    return data, origin if is_there else None


def with_steps(tree: dict, stages) -> dict:
    """Returns a tree with the runs that make what short names ask for."""
    steps = {}
    short = ("origin", "encoder", "general", "augment_model")
    origin, encoder, general, augment = map(tree.get, short)
    tree = without(tree, *short)
    student, text = tree["student"], tree.get("corpus")
    learns = any(
        one.objectives
        for one in stages
        if one.data == "corpus" and one.name in tree["stages"]
    )
    if encoder:
        origin = encoder
        if learns and find(encoder).kind != "masked_lm":
            origin = "run:pretrained"
            steps["pretrained"] = _first_run(tree, TEXT, encoder, corpus=text)
        if "run:teacher" in tree.setdefault("teacher", ["run:teacher"]):
            steps["teacher"] = _first_run(tree, TEACHER, origin)
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
            **only(tree, "recipe", "parity"),
            "kind": "text",
            "corpus": tree.pop("corpus"),
            "student": student,
            "teacher": tree.get("pretrained"),
            "run_dir": general,
        }
    if general:
        tree["student"] = {"checkpoint": located(general)}
    return merged({"steps": steps}, tree)


def _first_run(run, recipe, start, **fields):
    """A run of a place or a student before a run, trained like it."""
    training = {**run.get("training", {}), "seed": 0}
    if isinstance(start, str):
        start = {"checkpoint": start}
    return {"recipe": recipe, "training": training, "student": start, **fields}


def text_layer(given: dict) -> tuple:
    """Returns the layer of a language model."""
    text, family = given.get("corpus") or {}, _family(given)
    is_mass = family == "mass" or "languages" in text
    kind = text.get("kind", "sentences" if is_mass else "corpus")
    layer = {"kind": "text", "corpus": {"kind": kind}}
    stages = STAGES.get(kind, ())
    if given["recipe"] != TEXT:
        recipe = recipe_of(given | {"model": family})
        if family == "bert":
            layer["corpus"]["masking"] = {"share_of": recipe.mask_share_of}
        else:  # one of its stages
            usual = recipe.stages[-1 if kind == "pairs" else 0].name
            given = {"only_stages": usual} | given
        stages = recipe.stages_on_text()
        layer["student"] = student_of(recipe.student)
    return stages, layer, given


def _family(given):
    """The family of a decoder, "mass", or "bert" for any encoder."""
    student = given["student"]
    place = given.get("teacher") or student.get("checkpoint")
    if "model" in given:
        return given["model"]
    if kind_of_student(student) == "Mass":
        return "mass"
    if place is None:
        return "bert"
    found = find(place)
    if found.kind == "encoder_decoder":
        return "mass"
    saved = found.config
    name = saved.get("class_name", saved.get("model_type", place)).lower()
    return next((one for one in DECODERS if name.startswith(one)), "bert")


def chain_layer(given: dict) -> tuple:
    """Returns the layer of a recipe on text alone, such as LightPAFF.

    The steps are the teacher on general text, the teacher on the task's text,
    and the student on general text with the first teacher. The run itself is
    the student on the task's text with the second.
    """
    *_, on_task = recipe_of(given).stages
    general, text = given.get("general_text", {}), given.get("corpus", {})
    is_mass = given["model"] == "mass"
    text = {"kind": "pairs" if is_mass else "corpus", **text}
    if languages := listed(general.get("languages", ())):
        text.setdefault("languages", [*dict.fromkeys(languages)][:2])
    if "sequence_length" in text:
        general = {**general, "sequence_length": text["sequence_length"]}
    places = {name: given.get(name, f"run:{name}") for name in STEPS}
    start, decoder = places["pretrained"], given.get("decoder", {})
    stage = to_dict(without_teacher(on_task)) | given.get("every_stage", {})
    steps = {
        "pretrained": _first_run(given, TEXT, decoder, corpus=general),
        "teacher": _first_run(given, TEXT, start, corpus=text),
        "general": {
            **only(given, "recipe", "model", "training", "student"),
            "kind": "text",
            "corpus": general,
            "teacher": start,
            # The spans of MASS differ in each epoch.
            "cache": None if is_mass else given.get("cache"),
        },
    }
    steps["pretrained"]["tokenizer"] = given.get("tokenizer")
    steps["teacher"]["stages"] = {on_task.name: stage}
    steps["teacher"]["only_stages"] = on_task.name
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
    short = ("general_text", "decoder", "tokenizer", "student", *STEPS)
    return [on_task], layer, without(given, *short)


def embedder_layer(given: dict) -> tuple:
    """Returns the layer of a sentence encoder."""
    recipe = recipe_of(given)
    kind = recipe.stages[0].data
    data = {"kind": kind, **given.get("data", {})}
    if "scored" in data:
        scored = data["scored"]
        if "table" in scored:
            scored = merged({"table": {"regression": True}}, scored)
        data["scored"], _ = task_named(scored)
    layer = {"kind": "embedder", "student": student_of(recipe.student)}
    if kind == "translations" and "checkpoint" not in given["student"]:
        layer["data"] = {"tokenizer": VOCABULARY_SIZE}
    return recipe.stages, layer, given | {"data": data}
