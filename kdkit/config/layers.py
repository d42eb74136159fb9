"""A run's config from layers of dicts: a recipe, a file, then what is given.

Each layer overrides the one before, field by field; the result is validated
once. What is given may have short names beside fields: `epochs`, `batch_size`
and `learning_rate` of the only stage, `only_stages`, `quantize`, and the models
that steps before the run make: `encoder`, `general`, `decoder`.
"""

import json
import pathlib
import tomllib

from pydantic import ValidationError

from kdkit import tasks
from kdkit.augmentation import copies_for
from kdkit.config.model import kind_of_student, student_of
from kdkit.config.runs import ADAPTER, AnyRun
from kdkit.config.smoke import smoke_layer
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS, find
from kdkit.recipes import RECIPES, fine_tuning, pretraining
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.stages import without_teacher
from kdkit.settings import in_words, merged, to_dict

SHORT = ("epochs", "batch_size", "learning_rate")
# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000
VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages
TEACHER, TEXT = "fine_tuning", "pretraining"  # runs without a recipe's student


def config_of(source: str, given: dict, smoke: bool = False) -> AnyRun:
    """Returns the config of a run.

    Args:
        source: string. A recipe's name, `"pretraining"`, or the place of a TOML
            file, a config.json or a run.
        given: nested dict of fields and short names.
        smoke: bool. Whether to begin with tiny models on generated data.

    Raises:
        UsageError: (a `ValueError`) with a line for each mistake.
    """
    file = {"recipe": source}
    if source not in (*RECIPES, TEXT):
        file = read_config(source)
    given = merged(file, given)
    if "kind" in file:  # a complete one
        return _validated(_with_short(given))
    name = given["recipe"]
    if name not in (*RECIPES, TEXT):
        raise unknown("recipe", name, (*RECIPES, TEXT))
    make = _kind_of(name, given)
    if smoke:
        given = merged(smoke_layer(name, given), given)
    return _validated(make(given))


def read_config(place) -> dict:
    """Returns the fields in a TOML or JSON file, or of a run's config."""
    path = pathlib.Path(place)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise unknown("recipe", str(place), RECIPES)
    load = tomllib.loads if path.suffix == ".toml" else json.loads
    return load(path.read_text("utf-8"))


def _validated(tree):
    try:
        return ADAPTER.validate_python(tree)
    except ValidationError as error:
        raise UsageError(in_words(error, tree)) from error


def _kind_of(name, given):
    """The function that completes what is given for a kind of run."""
    if name == TEXT or "corpus" in given and "stage" in given:
        return _on_text
    recipe = RECIPES[name]
    if recipe.trains_embedder:
        return _embedder
    return _chain if given.get("model", "bert") != "bert" else _on_task


def _stages(stages, given) -> dict:
    """Stages as a layer: those that are wanted, by name."""
    known = {stage.name: to_dict(stage) for stage in stages}
    wanted = given.pop("only_stages", known)
    for name in wanted:
        if name not in known:
            raise unknown("stage", name, known)
    return {name: known[name] for name in known if name in wanted}


def _with_short(tree):
    """A tree whose short names are fields of the only stage."""
    given = [name for name in SHORT if name in tree]
    stages = tree.get("stages", {})
    if given and len(stages) > 1:
        fields = [
            f"stages.{stage}.{name}" for stage in stages for name in given
        ]
        raise UsageError(
            f"{given[0]} matches several stages. Expected one of "
            f"{', '.join(fields)}."
        )
    for name in given:
        for stage in stages.values():
            stage[name] = tree.pop(name)
    return tree


def _on_task(given):
    """A run on a task, and the runs that make its models."""
    given = merged(_of_teacher(given), given)
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    task = _task(given.get("data", {}))
    stages = recipe.stages_for(task, parity)
    plan = recipe.variant(parity).student
    if given["recipe"] == TEACHER and "teacher" not in given:
        stages = fine_tuning.STAGES
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.pop("quantize", None):
        added = quantization_stage(precision, task, recipe.stages_for(task))
        stages = (*stages, added)
    named = given.get("stages", {})
    layer = {"kind": "task", "stages": _stages(stages, given)}
    if parity is None:
        for name, stage in layer["stages"].items():
            if stage["data"] == "task" and "epochs" not in {
                *given,
                *named.get(name, {}),
            }:
                stage["least_updates"] = LEAST_UPDATES
    counted = [
        one.loss.counts_padding
        for stage in stages
        if stage.data == "task"
        for one in stage.objectives
    ]
    layer["data"] = {
        "task": task.name,
        "table": task.table and to_dict(task.table),
        "sequence_length": task.sequence_length,
        **({"num_buckets": None} if any(counted) else {}),
    }
    given["student"] = _student(given, plan)
    if "files" in given.get("corpus", {}):
        share_of = {"share_of": recipe.mask_share_of}
        layer["corpus"] = {"kind": "corpus", "masking": share_of}
    tree = _with_short(merged(layer, given))
    tree = _with_augmented(tree)
    if "encoder" in tree:
        tree = _with_encoder(tree)
    return _with_general(tree, recipe) if "general" in tree else tree


def _student(given, plan):
    """The student that is named, or what is named of a recipe's."""
    named = given.get("student", {})
    if named.get("checkpoint") in PRESETS:
        named = {**named}
        plan = named.pop("checkpoint")
    if plan is None or kind_of_student(named) is not None:
        return named
    return merged(student_of(plan), named)


def _task(fields):
    """The task that the fields of data name."""
    table = fields.get("table")
    if table is not None:
        return tasks.from_table(**table)
    name = fields.get("task", "sst2")
    if name.endswith(".toml"):
        return tasks.from_toml(name)
    return tasks.get_task(name)


def _of_teacher(given):
    """The data of the first teacher's run, and what it was trained from."""
    first = next(iter(given.get("teacher", ())), None)
    if first is None or not pathlib.Path(first, "config.json").is_file():
        return {}
    config = read_config(first)
    found = {}
    if config["kind"] == "task" and "data" not in given:
        found["data"] = config["data"] | {"max_train_rows": None}
    origin = config["student"].get("checkpoint")
    if origin is not None:
        found["pretrained"] = origin
    return found


def _with_augmented(tree):
    """A tree with the step that makes a missing file of copies."""
    model = tree.pop("augment_model", None)
    vectors = tree.pop("augment_vectors", None)
    if model is None:
        return tree
    parity = tree.get("parity") if tree.get("parity") == "tinybert" else None
    step = {
        "kind": "augmentation",
        "data": tree["data"],
        "model": model,
        "word_vectors": vectors,
        "parity": parity,
        "num_copies": copies_for(tree["data"]["task"], parity),
    }
    return merged({"steps": {"augmented": step}}, tree)


def _with_encoder(tree):
    """A tree with a teacher that the run fine-tunes first from an encoder."""
    start, steps = tree.pop("encoder"), {}
    same = {"training": tree.get("training", {})}
    on_text = [
        one for one in tree["stages"].values() if one["data"] == "corpus"
    ]
    learns = any(one["objectives"] for one in on_text)
    if learns and find(start).kind != "masked_lm":
        steps["pretrained"] = same | {
            "recipe": TEXT,
            "kind": "text",
            "corpus": tree["corpus"],
            "student": {"checkpoint": start},
            "stages": _stages(pretraining.STAGES, {}),
        }
        start = "run:pretrained"
    steps["teacher"] = same | {
        "recipe": TEACHER,
        "kind": "task",
        "data": tree["data"],
        "student": {"checkpoint": start},
        "stages": _stages(fine_tuning.STAGES, {}),
    }
    for stage in steps["teacher"]["stages"].values():
        stage["least_updates"] = LEAST_UPDATES
    made = {"teacher": ["run:teacher"], "pretrained": start, "steps": steps}
    return merged(made, tree)


def _with_general(tree, recipe):
    """A tree whose student learns from the pretrained encoder first."""
    place, text = tree.pop("general"), tree.pop("corpus", None)
    if text is not None:
        step = {
            "recipe": recipe.name,
            "kind": "text",
            "corpus": text,
            "student": tree["student"],
            "teacher": tree.get("pretrained"),
            "stages": _stages(recipe.stages_on_text(tree.get("parity")), {}),
            "training": tree.get("training", {}),
            "run_dir": place,
        }
        tree = merged(tree, {"steps": {"general": step}})
    return tree | {"student": {"checkpoint": place}}


def _on_text(given):
    """A language model on text, with a teacher or without."""
    family = given.pop("model", "bert")
    name, stage = given["recipe"], given.pop("stage", None)
    kind = given.get("corpus", {}).get("kind", "corpus")
    stages, plan = pretraining.STAGES, None
    if kind == "sentences":
        stages = pretraining.FROM_SCRATCH
    if kind == "pairs":
        stages = pretraining.PAIRS
    if name != TEXT:
        recipe = RECIPES[name]
        recipe = recipe.for_families.get(family, recipe)
        stages, plan = (
            recipe.stages_on_text(given.get("parity")),
            recipe.student,
        )
        if family != "bert":
            names = [one.name for one in stages]
            stage = stage or names[-1 if kind == "pairs" else 0]
            if stage not in names:
                raise unknown("stage", stage, names)
            stages = (stages[names.index(stage)],)
    layer = {"kind": "text", "stages": _stages(stages, given)}
    layer["corpus"] = {"kind": kind}
    given["student"] = _student(given, plan)
    if given["student"].get("copy_from") == "pretrained":
        given["student"]["copy_from"] = given["teacher"]
    return _with_short(merged(layer, given))


def _chain(given):
    """The four runs of a recipe on text alone, such as LightPAFF."""
    recipe, family = RECIPES[given["recipe"]], given.pop("model")
    if family not in recipe.for_families:
        raise unknown("--model", family, ("bert", *recipe.for_families))
    recipe = recipe.for_families[family]
    on_general, on_task = recipe.stages
    is_mass = family == "mass"
    general, text = given.pop("corpus", {}), given.pop("task_text", {})
    kinds = ("sentences", "pairs") if is_mass else ("corpus", "corpus")
    general, text = (
        merged({"kind": kind}, one)
        for kind, one in zip(kinds, (general, text), strict=True)
    )
    same = merged(
        {"jit_compile": "update" if is_mass else True}, given["training"]
    )
    student = _student(given, recipe.student)
    given.pop("student", None)
    cache, short = given.pop("cache", None), given.pop("short", {})

    def step(corpus, stages, start, **more):
        return {
            "recipe": TEXT,
            "kind": "text",
            "corpus": corpus,
            "student": start,
            "stages": {
                name: stage | short
                for name, stage in _stages(stages, {}).items()
            },
            "training": same,
            **more,
        }

    first = pretraining.FROM_SCRATCH if is_mass else pretraining.STAGES
    second = pretraining.PAIRS if is_mass else (without_teacher(on_task),)
    taught = {"recipe": recipe.name, "cache": cache}
    steps = {
        "pretrained": step(
            general,
            first,
            given.pop("decoder", None),
            tokenizer=given.pop("tokenizer", None),
        ),
        "teacher": step(text, second, {"checkpoint": "run:pretrained"}),
        "general": step(
            general,
            (on_general,),
            student,
            teacher="run:pretrained",
            **taught | ({"cache": None} if is_mass else {}),
        ),
    }
    places = {
        name: given.pop(name, f"run:{name}")
        for name in ("pretrained", "teacher", "general")
    }
    # A place stands for the step, and a step that nothing reads is left out.
    needed = [name for name in steps if places[name] == f"run:{name}"]
    if not {"teacher", "general"} & {*needed}:
        needed = [name for name in needed if name != "pretrained"]
    last = step(
        text,
        (on_task,),
        {"checkpoint": places["general"]},
        teacher=places["teacher"],
        steps={name: steps[name] for name in needed},
        **taught,
    )
    for one in last["steps"].values():
        for field in ("teacher",):
            if one.get(field) == "run:pretrained":
                one[field] = places["pretrained"]
        if one["student"] == {"checkpoint": "run:pretrained"}:
            one["student"] = {"checkpoint": places["pretrained"]}
    return merged(last, given)


def _embedder(given):
    """A sentence encoder on texts, translations or candidates."""
    recipe = RECIPES[given["recipe"]].variant(given.get("parity"))
    kind = recipe.stages[0].data
    layer = {
        "kind": "embedder",
        "stages": _stages(recipe.stages, given),
        "data": {"kind": kind},
    }
    given["student"] = _student(given, recipe.student)
    if kind == "translations" and "checkpoint" not in given.get("student", {}):
        layer["data"]["tokenizer"] = VOCABULARY_SIZE
    return _with_short(merged(layer, given))
