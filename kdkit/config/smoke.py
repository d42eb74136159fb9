"""Layers of tiny models on generated data, below what is given."""

from kdkit.config.fields import tasks
from kdkit.config.parts import (
    TEACHER,
    TEXT,
    by_name,
    one_length,
    recipe_named,
)
from kdkit.errors import UsageError
from kdkit.models import PRESETS, BilstmConfig
from kdkit.recipes import RECIPES, TokenVectors
from kdkit.recipes.quantization import NAME as QUANTIZATION
from kdkit.recipes.sentence_embedding import with_prefixes
from kdkit.settings import merged

SIMILARITY = "similarity"
TRAINING = {"jit_compile": False}
SHORT = {"epochs": 1, "learning_rate": 1e-3}  # a rate for random weights
# One batch length: each length needs a trace of the step, which takes most of
# the time.
ROWS = {"sequence_length": 32, "num_buckets": 1}
DATA = ROWS | {"task": "sentiment", "max_train_rows": 256}
CORPUS = {
    "files": [],
    "sequence_length": 32,
    "held_out_every": 20,
    "max_texts": 800,
}
# With language tokens.
SENTENCES = CORPUS | {
    "languages": ["en", "de"],
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


def _first_run(recipe, width=32, **fields):
    """The run of a tiny encoder or of a tiny teacher."""
    made = {"recipe": recipe, "student": sizes(3, width), "training": TRAINING}
    return made | {"stages": {recipe: SHORT}, **fields}


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


def smoke_layer(given: dict) -> dict:
    """Returns the layer of a recipe, `"pretraining"` or a teacher."""
    name = given["recipe"]
    if name == TEXT:
        return _first_run(TEXT, corpus=CORPUS)
    if given.get("kind") == "text":
        raise UsageError(
            f"Smoke runs on text have no recipe. Received: {name}. Run kdkit "
            f"distill {name} --smoke."
        )
    if given.get("teacher") == []:
        return _first_run(TEACHER, data=DATA)
    recipe = recipe_named(given)
    if recipe.trains_embedder:
        return _embedder(recipe)
    if given.get("model", "bert") != "bert":
        return _chain(recipe.for_families[given["model"]])
    stages = recipe.stages_for(tasks.get_task(DATA["task"]))
    names = [stage.name for stage in stages]
    names += [QUANTIZATION] * ("quantize" in given)
    steps = {"teacher": _first_run(TEACHER, data=DATA)}
    layer = {
        "data": DATA | one_length(stages),
        "teacher": ["run:teacher"],
        "student": _student(RECIPES[name].student),
        "stages": dict.fromkeys(names, SHORT),
        "training": TRAINING,
    }
    on_corpus = [stage for stage in stages if stage.data == "corpus"]
    if on_corpus:
        layer["corpus"] = CORPUS
    if any(stage.objectives for stage in on_corpus):
        steps = {"pretrained": _first_run(TEXT, corpus=CORPUS), **steps}
        layer["pretrained"] = "run:pretrained"
    return layer | {"steps": steps}


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
    stages = by_name(with_prefixes(recipe.stages, (24, 12)))
    layer = {
        "data": {"files": [], **ROWS},
        "teacher": "run:teacher",
        "student": {"copy_from": "teacher", "layers": [1, 3]},
        "stages": {name: one | SHORT for name, one in stages.items()},
        "training": TRAINING,
    }
    kind = recipe.stages[0].data
    if kind == "candidates":
        pairs = _first_run(TEACHER, 48, data=DATA | {"task": SIMILARITY})
        layer["steps"] = {"teacher": pairs}
        return merged(layer, {"data": {"pair_length": 32}})
    layer["steps"] = {"teacher": _first_run(TEXT, 48, corpus=CORPUS)}
    more = {"max_texts": 800, "scored": {"task": SIMILARITY}}
    if kind == "translations":
        more |= {"held_out_every": 20, "tokenizer": 200}
    if isinstance(recipe.student, TokenVectors):
        layer["student"] = {"dimensions": 16}
    return merged(layer, {"data": more, "pooling": "mean"})


def _chain(recipe):
    """Tiny decoders or encoder-decoders on generated text."""
    config = PRESETS[recipe.student].config
    text = SENTENCES
    short = SHORT
    models = {"decoder": mass(2, 32), "student": mass(1, 16), "tokenizer": 400}
    if hasattr(config, "encoder_num_layers"):
        short = SHORT | {"batch_tokens": 1024}
    else:
        text, family = CORPUS | {"max_texts": 200}, {"family": config.family}
        models = {
            "decoder": sizes(2, 32, **family),
            "student": sizes(1, 16, **family),
            "tokenizer": 300,
        }
    layer = {"corpus": text, "general_text": text, "training": TRAINING}
    return layer | models | {"every_stage": short}
