"""Layers of tiny models on generated data, below what is given."""

from kdkit.config.fields import tasks
from kdkit.models import PRESETS, BilstmConfig
from kdkit.recipes import RECIPES, TokenVectors
from kdkit.runs.parts import (
    TEACHER,
    TEXT,
    kind_of,
    one_length,
    recipe_named,
)
from kdkit.settings import merged


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


# The rate is for random weights.
SHORT = {"epochs": 1, "learning_rate": 1e-3, "least_updates": 0}
TINY = {"training": {"jit_compile": False}, "every_stage": SHORT}
# One batch length: each length needs a trace of the step, which takes most of
# the time.
ROWS = {"sequence_length": 32, "num_buckets": 1}
DATA = ROWS | {"task": "sentiment", "max_train_rows": 256}
SIMILARITY = {"task": "similarity"}
HELD_OUT = {"files": [], "held_out_every": 20}
CORPUS = HELD_OUT | {"sequence_length": 32, "max_texts": 800}
LANGUAGES = {"languages": ["en", "de"]}  # with language tokens
SENTENCES = HELD_OUT | {"sequence_length": 64, "max_texts": 240} | LANGUAGES
# The demo, above the smoke run of TinyBERT.
LONG = {"data": {"max_train_rows": None, "num_buckets": 2}}
SLOW = {"every_stage": {"epochs": 4, "learning_rate": 5e-4}}
DEMO = LONG | {
    "control": True,
    "student": sizes(2, 32),
    "every_stage": {"epochs": 3},
    "steps": {"teacher": LONG | SLOW | {"student": sizes(4, 96)}},
}


def smoke_layer(given: dict) -> dict:
    """Returns the layer of a recipe, `"pretraining"` or a teacher."""
    about = kind_of(given)
    if about == "text":
        return _first_run(TEXT, corpus=CORPUS)
    if given.get("teacher") == []:
        return _first_run(TEACHER, data=DATA)
    recipe = recipe_named(given)
    if recipe.trains_embedder:
        return _embedder(about, recipe)
    if about != "task":
        return _chain(given["model"])
    stages = recipe.stages_for(tasks.get_task(DATA["task"]))
    steps = {"teacher": _first_run(TEACHER, data=DATA)}
    layer = TINY | {
        "data": DATA | one_length(stages),
        "teacher": ["run:teacher"],
        "student": _student(RECIPES[recipe.name].student),
    }
    on_corpus = [stage for stage in stages if stage.data == "corpus"]
    if on_corpus:
        layer["corpus"] = CORPUS
    if any(stage.objectives for stage in on_corpus):
        steps = {"pretrained": _first_run(TEXT, corpus=CORPUS), **steps}
        layer["pretrained"] = "run:pretrained"
    return layer | {"steps": steps}


def _first_run(recipe, width=32, **fields):
    """The run of a tiny encoder or of a tiny teacher."""
    return TINY | {"recipe": recipe, "student": sizes(3, width)} | fields


def _student(plan):
    """A tiny model like a recipe's student."""
    if not isinstance(plan, str):
        return {"copy_from": "teacher", "rule": plan.rule, "num_layers": 2}
    if isinstance(PRESETS[plan].config, BilstmConfig):
        wide = dict.fromkeys(("embedding_dim", "intermediate_dim"), 16)
        return {"units": 8, "dropout": 0.0, **wide}
    return sizes(2, 16)


def _embedder(kind, recipe):
    """A tiny sentence encoder from a tiny encoder or cross-encoder."""
    layer = TINY | {
        "data": {"files": [], **ROWS},
        "teacher": "run:teacher",
        "student": {"copy_from": "teacher", "layers": [1, 3]},
    }
    if kind == "candidates":
        pairs = _first_run(TEACHER, 48, data=DATA | SIMILARITY)
        more = {"data": {"pair_length": 32}, "steps": {"teacher": pairs}}
        return merged(layer, more)
    data = {"max_texts": 800, "scored": SIMILARITY}
    if kind == "translations":
        data |= {"held_out_every": 20, "tokenizer": 200}
    if isinstance(recipe.student, TokenVectors):
        layer["student"] = {"dimensions": 16}
    (stage,) = recipe.stages
    if "matryoshka" in [one.name for one in stage.objectives]:
        narrow = {"matryoshka": {"loss": {"dimensions": [24, 12]}}}
        layer["stages"] = {stage.name: {"objectives": narrow}}
    layer["steps"] = {"teacher": _first_run(TEXT, 48, corpus=CORPUS)}
    return merged(layer, {"data": data, "pooling": "mean"})


def _chain(family):
    """Tiny decoders or encoder-decoders on generated text."""
    text, short, size = CORPUS | {"max_texts": 200}, SHORT, 300
    decoder, student = (
        sizes(layers, 16 * layers, family=family) for layers in (2, 1)
    )
    if family == "mass":
        text, short, size = SENTENCES, SHORT | {"batch_tokens": 1024}, 400
        decoder, student = mass(2, 32), mass(1, 16)
    return TINY | {
        "corpus": text,
        "general_text": text,
        "decoder": decoder,
        "student": student,
        "tokenizer": size,
        "every_stage": short,
    }
