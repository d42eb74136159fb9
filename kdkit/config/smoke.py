"""Layers of tiny models on generated data, below what is given."""

from kdkit.config.fields import tasks
from kdkit.config.model import student_of
from kdkit.errors import UsageError
from kdkit.models import PRESETS, BilstmConfig
from kdkit.recipes import RECIPES, TokenVectors, pretraining
from kdkit.recipes.quantization import NAME as QUANTIZATION

TASK, SIMILARITY = "sentiment", "similarity"
TRAINING = {"jit_compile": False}
SHORT = {"epochs": 1, "learning_rate": 1e-3}  # a rate for random weights
# One batch length: each length needs a trace of the step, which takes most of
# the time.
DATA = {
    "task": TASK,
    "sequence_length": 32,
    "max_train_rows": 256,
    "num_buckets": 1,
}
CORPUS = {
    "kind": "corpus",
    "files": [],
    "sequence_length": 32,
    "held_out_every": 20,
    "max_texts": 800,
}
TEXTS = {  # with language tokens
    "files": [],
    "languages": ["en", "de"],
    "held_out_every": 20,
    "max_texts": 240,
    "sequence_length": 64,
}


def sizes(num_layers: int, hidden_dim: int, **more) -> dict:
    """Returns a tiny model, without dropout, with which it learns slowly."""
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": 4,
        "intermediate_dim": 4 * hidden_dim,
        "max_sequence_length": 32,
        "dropout": 0.0,
        **more,
    }


def mass(num_layers: int, hidden_dim: int) -> dict:
    """Returns a tiny encoder-decoder."""
    common = sizes(num_layers, hidden_dim, max_sequence_length=64)
    del common["num_layers"]
    sides = ("encoder_num_layers", "decoder_num_layers")
    return common | dict.fromkeys(sides, num_layers)


def _long(num_layers, hidden_dim, epochs, learning_rate, *stages):
    """Fields of a run of the demo, which is longer than smoke runs."""
    short = {"epochs": epochs, "learning_rate": learning_rate}
    return {
        "data": {"max_train_rows": None, "num_buckets": 2},
        "student": sizes(num_layers, hidden_dim),
        "stages": dict.fromkeys(stages, short),
    }


# The demo, above the smoke run of TinyBERT.
DEMO = _long(2, 32, 3, 1e-3, "intermediate_layer", "prediction_layer") | {
    "control": True,
    "steps": {"teacher": _long(4, 96, 4, 5e-4, "fine_tuning")},
}


def _run(recipe, kind, student, stage, **more):
    return {
        "recipe": recipe,
        "kind": kind,
        "student": student,
        "stages": {stage: SHORT | {"hard_label_weight": 1.0}},
        "training": TRAINING,
        **more,
    }


def pretrained(width: int = 32) -> dict:
    """Returns the run of a tiny pretrained encoder."""
    made = _run("pretraining", "text", sizes(3, width), "pretraining")
    made["stages"]["pretraining"] |= {"data": "corpus", "warmup_fraction": 0.05}
    return made | {"corpus": CORPUS}


def teacher(width: int = 32, task: str = TASK) -> dict:
    """Returns the run of a tiny teacher."""
    made = _run("fine_tuning", "task", sizes(3, width), "fine_tuning")
    return made | {"data": DATA | {"task": task}}


def one_length(stages) -> dict:
    """Returns the field of data for losses that count padding."""
    counted = [
        one.loss.counts_padding
        for stage in stages
        if stage.data == "task"
        for one in stage.objectives
    ]
    return {"num_buckets": None} if any(counted) else {}


def smoke_layer(name: str, given: dict) -> dict:
    """Returns the layer of a recipe, `"pretraining"` or a teacher."""
    if name == pretraining.STAGES[0].name:
        return pretrained()
    if given.get("kind") == "text":
        raise UsageError(
            f"Smoke runs on text have no recipe. Received: {name}. Run kdkit "
            f"distill {name} --smoke."
        )
    if given.get("teacher") == []:
        return teacher()
    recipe, parity = RECIPES[name], given.get("parity")
    recipe = recipe.variant(parity if parity in recipe.parities else None)
    if recipe.trains_embedder:
        return _embedder(recipe)
    if given.get("model", "bert") != "bert":
        return _chain(recipe.for_families[given["model"]])
    stages = recipe.stages_for(tasks.get_task(TASK))
    names = [stage.name for stage in stages]
    names += [QUANTIZATION] * ("quantize" in given)
    layer = {
        "data": DATA | one_length(stages),
        "teacher": ["run:teacher"],
        "student": _student(RECIPES[name].student),
        "stages": dict.fromkeys(names, SHORT),
        "steps": {"teacher": teacher()},
        "training": TRAINING,
    }
    on_corpus = [stage for stage in stages if stage.data == "corpus"]
    if on_corpus:
        layer["corpus"] = CORPUS | {
            "masking": {"share_of": recipe.mask_share_of}
        }
    if any(stage.objectives for stage in on_corpus):
        layer["steps"] = {"pretrained": pretrained(), **layer["steps"]}
        layer["pretrained"] = "run:pretrained"
    return layer


def _student(plan):
    """A tiny model like a recipe's student."""
    if not isinstance(plan, str):
        return {"copy_from": "teacher", "rule": plan.rule, "num_layers": 2}
    if isinstance(PRESETS[plan].config, BilstmConfig):
        wide = dict.fromkeys(("embedding_dim", "intermediate_dim"), 16)
        return {"units": 8, "dropout": 0.0, **wide}
    return sizes(2, 16)


def _embedder(recipe):
    """A tiny sentence encoder from a tiny encoder or cross-encoder."""
    kind = recipe.stages[0].data
    data = {"files": [], "sequence_length": 32, "num_buckets": 1}
    layer = {
        "data": data | {"pair_length": 32},
        "teacher": "run:teacher",
        "student": {"copy_from": "teacher", "layers": [1, 3]},
        "stages": {stage.name: SHORT for stage in recipe.stages},
        "steps": {"teacher": teacher(48, SIMILARITY)},
        "training": TRAINING,
    }
    if kind == "candidates":
        return layer
    more = {"max_texts": 800, "scored": {"task": SIMILARITY}}
    if kind == "translations":
        more |= {"held_out_every": 20, "tokenizer": 200}
    layer |= {"data": data | more, "pooling": "mean"}
    layer["steps"] = {"teacher": pretrained(48)}
    if isinstance(recipe.student, TokenVectors):
        layer["student"] = student_of(recipe.student) | {"dimensions": 16}
    for stage in recipe.stages:
        for one in stage.objectives:
            if one.loss.name == "matryoshka":
                stages = layer["stages"]
                stages[stage.name] = stages[stage.name] | {
                    "objectives": {one.name: {"loss": {"dimensions": [24, 12]}}}
                }
    return layer


def _chain(recipe):
    """Tiny decoders or encoder-decoders on generated text."""
    config, short = PRESETS[recipe.student].config, {}
    layer = {"training": TRAINING}
    if hasattr(config, "encoder_num_layers"):
        short = {"batch_tokens": 1024}
        layer |= {"corpus": TEXTS, "general_text": TEXTS, "tokenizer": 400}
        layer |= {"decoder": mass(2, 32), "student": mass(1, 16)}
    else:
        text, family = CORPUS | {"max_texts": 200}, {"family": config.family}
        layer |= {"corpus": text, "general_text": text, "tokenizer": 300}
        layer |= {"decoder": sizes(2, 32, **family)}
        layer |= {"student": sizes(1, 16, **family)}
    layer["every_stage"] = SHORT | short
    return layer
