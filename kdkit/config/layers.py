"""A run's config from layers of dicts: a recipe, a file, then what is given.

Each layer overrides the one before, field by field; the result is validated
once. What is given may have short names beside fields: `epochs`, `batch_size`
and `learning_rate` of the only stage, `only_stages`, `quantize`, and what a run
makes before it: `encoder`, `general`, `augment_model`, `decoder`.
"""

import json
import logging
import pathlib
import tomllib

from pydantic import ValidationError

from kdkit import models, tasks
from kdkit.config.data import Augmentation
from kdkit.config.fields import located
from kdkit.config.model import kind_of_student, student_of
from kdkit.config.runs import ADAPTER, AnyRun
from kdkit.config.smoke import one_length, smoke_layer
from kdkit.data import word_vector_width
from kdkit.errors import UsageError, unknown
from kdkit.models import PRESETS, find
from kdkit.models.families import ALL_FAMILIES
from kdkit.recipes import RECIPES, fine_tuning, pretraining
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.sentence_embedding import for_other_width
from kdkit.recipes.stages import without_teacher
from kdkit.recipes.tinybert import copies_for
from kdkit.settings import in_words, merged, to_dict

_log = logging.getLogger(__name__)

SHORT = ("epochs", "batch_size", "learning_rate")
# Updates that a stage on a small table has: docs/measured/small_tables.md.
LEAST_UPDATES = 1000
VOCABULARY_SIZE = 16_000  # word pieces of a student of several languages
TEACHER, TEXT = "fine_tuning", "pretraining"  # recipes of runs before others
CHAIN = ("pretrained", "teacher", "general")  # steps on text
# The stages of a run on text, by the kind of text.
FIRST = {
    "corpus": pretraining.STAGES,
    "sentences": pretraining.FROM_SCRATCH,
    "pairs": pretraining.PAIRS,
}
WIDTHS = ("hidden_dim", "hidden_size", "dim")  # in files of models
POSITIONS, LENGTH = "max_sequence_length", 128


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
    return validated(tree_of(source, given, smoke))


def tree_of(source: str, given: dict, smoke: bool = False) -> dict:
    """Returns the fields of a run as nested dicts, not yet validated."""
    file = named_by(source)
    given = merged(file, given)
    if "provenance" in file:  # complete
        whole = {"provenance", "replicas", "requested"}
        tree = {name: given[name] for name in given if name not in whole}
    else:
        if smoke:
            given = merged(smoke_layer(given["recipe"], given), given)
        kind = kind_of(given)
        make = {"text": _on_text, "task": _on_task}.get(kind, _embedder)
        tree = (_chain if kind in ("decoder", "mass") else make)(given)
    return _on_devices(_with_short(tree))


def named_by(source: str) -> dict:
    """Returns the fields that a recipe's name or a file's place means."""
    named = {"recipe": source}
    if source not in (*RECIPES, TEXT):
        named = read_config(source)
    recipe = named.get("recipe")
    if recipe not in (*RECIPES, TEXT):
        raise unknown("recipe", recipe, (*RECIPES, TEXT))
    return named


def read_config(place) -> dict:
    """Returns the fields in a TOML or JSON file, or of a run's config."""
    path = pathlib.Path(place)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise unknown("recipe", str(place), RECIPES)
    load = tomllib.loads if path.suffix == ".toml" else json.loads
    return load(path.read_text("utf-8"))


def validated(tree: dict, validate=ADAPTER.validate_python):
    """Returns the config with these fields."""
    try:
        return validate(tree)
    except ValidationError as error:
        raise UsageError(in_words(error, tree)) from error


def augmentation_of(given: dict) -> Augmentation:
    """Returns the config of kdkit augment."""
    given["data"], _ = _with_task(given.get("data", {}), {})
    copies = {
        "num_copies": copies_for(given["data"].get("task"), given.get("parity"))
    }
    return validated(copies | given, Augmentation.model_validate)


def kind_of(given: dict) -> str:
    """Returns what a run with these fields is about.

    `"task"`, `"text"`, `"texts"`, `"translations"` or `"candidates"`; or
    `"decoder"` or `"mass"` for all steps of a recipe on text.
    """
    if given.get("kind") == "text" or given["recipe"] == TEXT:
        return "text"
    recipe, family = RECIPES[given["recipe"]], given.get("model", "bert")
    if family not in ("bert", *recipe.for_families):
        raise unknown("family", family, ("bert", *recipe.for_families))
    if recipe.trains_embedder:
        return recipe.stages[0].data
    return {"bert": "task", "mass": "mass"}.get(family, "decoder")


def _recipe(given):
    """The recipe in its variant, and the variant; an unknown one is no field.

    The config's validation names it.
    """
    recipe, parity = RECIPES[given["recipe"]], given.get("parity")
    parity = parity if parity in recipe.parities else None
    return recipe.variant(parity), parity


def _stages(stages, given) -> dict:
    """Stages as a layer: those that are wanted, by name."""
    known = {stage.name: to_dict(stage) for stage in stages}
    wanted, named = given.pop("only_stages", known), given.get("stages", {})
    for name in (*wanted, *named):
        is_new = "learning_rate" in named.get(name, {})
        if name not in known and not is_new:
            raise unknown("stage", name, known)
    return {name: known[name] for name in known if name in wanted}


def _with_short(tree):
    """A tree whose short names are fields of the only stage."""
    given = [name for name in SHORT if name in tree]
    stages = tree.get("stages", {})
    if given and len(stages) > 1:
        raise _several(given[0], [f"stages.{name}" for name in stages])
    for name in given:
        for stage in stages.values():
            stage[name] = tree.pop(name)
    return tree


def _several(name, places):
    """The error for a short name that could mean several fields."""
    fields = ", ".join(f"{place}.{name}" for place in places)
    return UsageError(
        f"{name} matches several fields of this run. Expected one of {fields}."
    )


def _on_devices(tree):
    """A tree whose runs all have the devices of the last one."""
    strategy = tree.get("training", {}).get("strategy")
    if strategy is None:
        return tree
    for name, step in tree.get("steps", {}).items():
        if step.get("kind") != "augmentation":
            same = {"training": {"strategy": strategy}}
            tree["steps"][name] = merged(same, step)
    return tree


def _on_task(given):
    """A run on a task, and the runs that make its models."""
    taught = given.get("teacher") or "encoder" in given
    is_teacher = given["recipe"] == TEACHER and not taught
    given = merged(_of_teacher(given), given)
    recipe, parity = _recipe(given)
    given["data"], task = _with_task(given.get("data", {}), given)
    stages, plan = recipe.stages_for(task), recipe.student
    if is_teacher:
        stages, plan = fine_tuning.STAGES, None
    if "general" in given:
        stages = [stage for stage in stages if stage.data == "task"]
    if precision := given.pop("quantize", None):
        stages = (*stages, quantization_stage(precision, task, stages))
    layer = {"kind": "task", "stages": _stages(stages, given)}
    layer["data"] = {"sequence_length": task.sequence_length}
    layer["data"] |= one_length(stages)
    if parity is None and not given.keys() & {"augmented", "unlabeled"}:
        _with_updates(layer["stages"], given)
    learns = any(one.objectives for one in stages if one.data == "corpus")
    given["student"] = _student(given, plan)
    if not (learns or given["student"].get("copy_from") == "pretrained"):
        given.pop("recorded", None)
    elif "recorded" in given:
        given.setdefault("pretrained", given["recorded"])
    given.pop("recorded", None)
    if "corpus" in given:
        share_of = {"share_of": recipe.mask_share_of}
        layer["corpus"] = {"kind": "corpus", "masking": share_of}
    tree = _with_augmented(_with_short(merged(layer, given)))
    if "encoder" in tree:
        tree = _with_encoder(tree, learns)
    return _with_general(tree, recipe) if "general" in tree else tree


def _with_updates(stages, given):
    """Asks for enough updates in stages on a task whose epochs are not given."""
    for name, stage in stages.items():
        named = {*given, *given.get("stages", {}).get(name, ())}
        if stage["data"] == "task" and "epochs" not in named:
            stage["least_updates"] = LEAST_UPDATES


def _student(given, plan):
    """The student that is named, or what is named of a recipe's."""
    named = {**given.get("student", {})}
    if named.get("checkpoint") in PRESETS:
        plan = named.pop("checkpoint")
    if plan is not None and kind_of_student(named) is None:
        named = merged(student_of(plan), named)
    if "word_vectors" in named and pathlib.Path(named["word_vectors"]).exists():
        named["embedding_dim"] = word_vector_width(named["word_vectors"])
    known = given.keys() & {"pretrained", "recorded", "encoder"}
    is_taught = given.get("teacher") and not known
    if named.get("copy_from") == "pretrained" and is_taught:
        named["copy_from"] = "teacher"
    return named


def _with_task(fields, given):
    """The fields of data with the task they name, and the task."""
    table, name = fields.get("table"), fields.get("task")
    teacher = next(iter(given.get("teacher", ())), None)
    task = None
    if table is not None and {"text_columns", "label_column"} <= {*table}:
        known = {**table, "text_column": table["text_columns"]}
        for extra in ("text_columns", "class_names"):
            known.pop(extra, None)
        task = tasks.from_table(**known, name=name, teacher=teacher)
    elif name is not None and name.endswith(".toml"):
        task = tasks.from_toml(name, teacher)
    if task is None:  # the config's validation names what is wrong
        return fields, tasks.TASKS.get(name, tasks.TASKS["sst2"])
    named = {"task": task.name, "table": to_dict(task.table)}
    return {**fields, **named}, task


def _of_teacher(given):
    """The data of the first teacher's run, and what it was trained from."""
    first = pathlib.Path(next(iter(given.get("teacher", ())), "/none"))
    config = read_config(first) if (first / "config.json").is_file() else {}
    if config.get("kind") != "task" or config["teacher"]:
        return {}
    found = {}
    if not given.get("data", {}).keys() & {"task", "table"}:
        found["data"] = config["data"] | {"max_train_rows": None}
    origin = config["student"].get("checkpoint", "")
    if origin.startswith("run:"):  # a step before it
        origin = str(first.parent / f"{origin[4:]}_run")
    is_name = origin and not pathlib.Path(origin).is_absolute()
    if is_name or pathlib.Path(origin, "config.json").is_file():
        found["recorded"] = origin
    return found


def _with_augmented(tree):
    """A tree with the step that makes a missing file of copies."""
    model = tree.pop("augment_model", None)
    vectors = tree.pop("augment_vectors", None)
    if model is None:
        return tree
    parity = tree.get("parity") if tree.get("parity") == "tinybert" else None
    data = tree["data"]
    step = {
        "kind": "augmentation",
        "data": {
            name: data[name]
            for name in ("task", "data_dir", "table")
            if name in data
        },
        "model": model,
        "word_vectors": vectors,
        "parity": parity,
        "num_copies": copies_for(data["task"], parity),
    }
    return merged({"steps": {"augmented": step}}, tree)


def _with_encoder(tree, learns):
    """A tree with a teacher that the run fine-tunes first from an encoder."""
    start, steps = tree.pop("encoder"), {}
    training = {**tree.get("training", {})}
    training.pop("seed", None)
    same = {"training": training}
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
    _with_updates(steps["teacher"]["stages"], {})
    made = {"teacher": ["run:teacher"], "steps": steps}
    if "copy_from" in tree["student"]:
        tree["student"]["copy_from"] = "pretrained"
    if learns or "copy_from" in tree["student"]:
        made["pretrained"] = start
    return merged(made, tree)


def _with_general(tree, recipe):
    """A tree whose student learns from the pretrained encoder first."""
    place, text = located(tree.pop("general")), tree.pop("corpus", None)
    if text is not None:
        step = {
            "recipe": recipe.name,
            "kind": "text",
            "corpus": text,
            "student": _of_text_teacher(tree["student"]),
            "teacher": tree.get("pretrained"),
            "stages": _stages(recipe.stages_on_text(), {}),
            "run_dir": place,
        }
        given = tree.get("steps", {}).get("general", {})
        tree = merged(tree, {"steps": {"general": merged(step, given)}})
    return tree | {"student": {"checkpoint": place}}


def _of_text_teacher(student):
    """A student whose layers are those of its only teacher."""
    return student | (
        {"copy_from": "teacher"} if "copy_from" in student else {}
    )


def _on_text(given):
    """A language model on text, with a teacher or without."""
    teacher, text = given.get("teacher"), given.get("corpus", {})
    start = given.get("student", {}).get("checkpoint") or teacher
    is_mass = "languages" in text or _family(start) == "mass"
    kind = text.get("kind", "sentences" if is_mass else "corpus")
    stages, plan = FIRST.get(kind, pretraining.STAGES), None
    stage = given.pop("stage", None)
    if given["recipe"] != TEXT:
        recipe, _ = _recipe(given)
        family = _family(teacher)
        if family != "bert":  # one of its stages
            if family not in recipe.for_families:
                raise unknown("family", family, recipe.for_families)
            recipe = recipe.for_families[family]
            last = recipe.stages[-1 if kind == "pairs" else 0]
            stage = stage or last.name
        stages, plan = recipe.stages_on_text(), recipe.student
    if stage is not None:
        given["only_stages"] = [stage]
    student = given["student"] = _of_text_teacher(_student(given, plan))
    layer = {
        "kind": "text",
        "stages": _stages(stages, given),
        "corpus": {"kind": kind},
    }
    places = (student.get("checkpoint"), teacher)
    positions = [saved_size(one, POSITIONS) for one in places if one]
    known = [*filter(None, positions), student.get(POSITIONS, LENGTH), LENGTH]
    if min(known) < LENGTH and "sequence_length" not in text:
        layer["corpus"]["sequence_length"] = min(known)
        _log.info(
            f"Sequences have at most {min(known)} tokens, the model's number "
            "of positions."
        )
    return merged(layer, given)


def _family(place) -> str:
    """The family of a decoder, "mass", or "bert" for any encoder."""
    if place is None:
        return "bert"
    found = find(place)
    preset = getattr(PRESETS.get(place), "config", None)
    if hasattr(preset, "encoder_num_layers") or found.kind == "encoder_decoder":
        return "mass"
    config = found.config
    for family in ALL_FAMILIES.values():
        form = family.checkpoints
        if family.is_decoder and (
            config.get("class_name", "") == f"{family.class_name}Backbone"
            or (form and config.get("model_type") == form.model_type)
            or place.startswith(f"{family.name}_")
        ):
            return family.name
    return "bert"


def saved_size(place, *names) -> int | None:
    """Returns a size from the files of a model, `None` if it is unknown."""
    config = find(place).config
    for entries in (config.get("config"), config):
        for name in names if isinstance(entries, dict) else ():
            if isinstance(entries.get(name), int):
                return entries[name]
    return None


def _chain(given):
    """The four runs of a recipe on text alone, such as LightPAFF."""
    if short := [name for name in SHORT if name in given]:
        raise _several(
            short[0], [f"steps.{name}.stages.NAME" for name in CHAIN]
        )
    family = given.pop("model")
    recipe = _recipe(given)[0].for_families[family]
    on_general, on_task = recipe.stages
    is_mass = family == "mass"
    kinds = ("sentences", "pairs") if is_mass else ("corpus", "corpus")
    text = {"kind": kinds[1], **given.pop("corpus", {})}
    general = {"kind": kinds[0], **given.pop("general_text", {})}
    if is_mass:
        _with_languages(text, general)
    if "sequence_length" in text:
        general["sequence_length"] = text["sequence_length"]
    same = given.pop("training", {})
    of_teacher = {name: same[name] for name in same if name != "seed"}
    student = _student(given, recipe.student)
    cache = given.pop("cache", None)
    every_stage = given.pop("every_stage", {})
    for name in ("student", "recipe"):
        given.pop(name, None)
    places = {name: given.pop(name, f"run:{name}") for name in CHAIN}

    def step(corpus, stages, start, training=same, **more):
        made = _stages(stages, {})
        return {
            "recipe": TEXT,
            "kind": "text",
            "corpus": corpus,
            "student": start,
            "stages": {name: made[name] | every_stage for name in made},
            "training": training,
            **more,
        }

    taught = {"recipe": recipe.name, "cache": cache}
    steps = {
        "pretrained": step(
            general,
            FIRST["sentences"] if is_mass else pretraining.STAGES,
            _start(given.pop("decoder", None)),
            of_teacher,
            tokenizer=given.pop("tokenizer", None),
        ),
        "teacher": step(
            text,
            FIRST["pairs"] if is_mass else (without_teacher(on_task),),
            {"checkpoint": places["pretrained"]},
            of_teacher,
        ),
        "general": step(
            general,
            (on_general,),
            student,
            teacher=places["pretrained"],
            # Hidden spans differ in each epoch.
            **taught | ({"cache": None} if is_mass else {}),
        ),
    }
    # A place replaces its step, and a step that no other reads is left out.
    needed = [name for name in steps if places[name] == f"run:{name}"]
    if needed == ["pretrained"]:
        needed = []
    last = step(
        text,
        (on_task,),
        {"checkpoint": places["general"]},
        teacher=places["teacher"],
        steps={name: steps[name] for name in needed},
        **taught,
    )
    return merged(last, given)


def _start(decoder):
    """The student of the first step: sizes, a preset's or a checkpoint."""
    if isinstance(decoder, dict) or decoder is None:
        return decoder
    return student_of(decoder)


def _with_languages(pairs, sentences):
    """Gives pairs their languages, which are the first of the sentences'."""
    languages = sentences.get("languages", ())
    if languages and "languages" not in pairs:
        pairs["languages"] = [*dict.fromkeys(languages)][:2]
    known = dict(
        zip(map(located, sentences.get("files", ())), languages, strict=False)
    )
    for file, side in zip(
        pairs.get("files", ()), pairs.get("languages", ()), strict=False
    ):
        language = known.get(located(file), side)
        if language != side:
            raise UsageError(
                f"languages: {file} is {language!r} among the sentences and "
                f"{side!r} in the pairs, whose languages come first."
            )


def _embedder(given):
    """A sentence encoder on texts, translations or candidates."""
    recipe, _ = _recipe(given)
    kind, stages = recipe.stages[0].data, recipe.stages
    named, data = given.get("student", {}), given.setdefault("data", {})
    if kind == "candidates" and named.keys() & {"num_layers", "layers"}:
        if "checkpoint" in named:  # some of its layers
            given["student"] = {**named, "copy_from": named["checkpoint"]}
            del given["student"]["checkpoint"]
    student = given["student"] = _student(given, recipe.student)
    if kind != "candidates":  # vectors are compared
        widths = _widths(student, given)
        if None not in widths and widths[0] != widths[1]:
            stages = for_other_width(stages, is_wider=widths[0] > widths[1])
    if "scored" in data:
        table = data["scored"].get("table")
        if table is not None:
            table.setdefault("regression", True)
        data["scored"], _ = _with_task(data["scored"], {})
    layer = {
        "kind": "embedder",
        "stages": _stages(stages, given),
        "data": {"kind": kind},
    }
    if kind == "translations" and "checkpoint" not in student:
        layer["data"]["tokenizer"] = VOCABULARY_SIZE
    return merged(layer, given)


def _widths(student, given):
    """The widths of a student's and a teacher's vectors, `None` if unknown."""
    pooling, width = given.get("pooling"), student.get("hidden_dim")
    if "checkpoint" in student:
        width = _vector_width(student["checkpoint"], pooling)
    if width is None or "teacher" not in given:
        return None, None
    return width, _vector_width(given["teacher"], pooling)


def _vector_width(place, pooling):
    """The width of a saved encoder's vectors, `None` if it is unknown."""
    if not find(place).may_have_dense:
        return saved_size(place, *WIDTHS)
    return models.load_embedder(place, pooling).model.output_shape[-1]
