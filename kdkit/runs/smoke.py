"""Layers of tiny models on generated data, below what is given."""

from kdkit.config.model import kind_of_student, student_of
from kdkit.runs.layers import TEACHER, TEXT, kind_of, one_length, recipe_of


def sizes(hidden_dim: int, **more) -> dict:
    """Returns a tiny model, without dropout, with which it learns slowly."""
    width = {"hidden_dim": hidden_dim, "intermediate_dim": 4 * hidden_dim}
    usual = {"num_heads": 4, "max_sequence_length": 32, "dropout": 0.0}
    return width | usual | more


# The rate is for random weights.
SHORT = {"epochs": 1, "learning_rate": 1e-3, "least_updates": 0}
TINY = {"training": {"jit_compile": False}, "every_stage": SHORT}
# One batch length: each length needs a trace of the step, which takes most of
# the time.
ROWS = {"sequence_length": 32, "num_buckets": 1}
DATA = ROWS | {"task": "sentiment", "max_train_rows": 256}
HELD_OUT = {"files": [], "held_out_every": 20}
CORPUS = HELD_OUT | {"sequence_length": 32, "max_texts": 800}
LANGUAGES = {"languages": ["en", "de"]}  # with language tokens
SENTENCES = HELD_OUT | {"sequence_length": 64, "max_texts": 240} | LANGUAGES
# What sentence encoders learn from.
SIMILARITY = {"task": "similarity"}
TEXTS = {"max_texts": 800, "scored": SIMILARITY}
EMBEDDER_DATA = {
    "texts": TEXTS,
    "translations": TEXTS | {"held_out_every": 20, "tokenizer": 200},
    "candidates": {"pair_length": 32},
}
# Students by the kind of the recipe's; others have sizes.
WIDTHS = {"embedding_dim": 16, "intermediate_dim": 16}
STUDENTS = {
    "Layers": {"copy_from": "teacher", "num_layers": 2},
    "Bilstm": {"units": 8, "dropout": 0.0, **WIDTHS},
}
# The demo, above the smoke run of TinyBERT.
LONG = {"data": {"max_train_rows": None, "num_buckets": 2}}
SLOW = {"every_stage": {"epochs": 4, "learning_rate": 5e-4}}
DEMO = LONG | {
    "control": True,
    "student": sizes(32, num_layers=2),
    "every_stage": {"epochs": 3},
    "steps": {"teacher": LONG | SLOW | {"student": sizes(96, num_layers=4)}},
}


def smoke_layer(given: dict) -> dict:
    """Returns the layer of a recipe, `"pretraining"` or a teacher."""
    about = kind_of(given)
    if about == "text":
        return _first_run(TEXT, corpus=CORPUS)
    if given.get("teacher") == []:
        return _first_run(TEACHER, data=DATA)
    recipe = recipe_of(given)
    kind = kind_of_student(student_of(recipe.student))
    if recipe.trains_embedder:
        return _embedder(about, kind, recipe.stages)
    if about != "task":
        return _chain(given["model"])
    steps = {"teacher": _first_run(TEACHER, data=DATA)}
    layer = TINY | {
        "data": DATA | one_length(recipe.stages),
        "teacher": ["run:teacher"],
        "student": STUDENTS.get(kind, sizes(16, num_layers=2)),
    }
    on_corpus = [stage for stage in recipe.stages if stage.data == "corpus"]
    if on_corpus:
        layer["corpus"] = CORPUS
    if any(stage.objectives for stage in on_corpus):
        steps = {"pretrained": _first_run(TEXT, corpus=CORPUS), **steps}
        layer["pretrained"] = "run:pretrained"
    return layer | {"steps": steps}


def _first_run(recipe, hidden_dim=32, **fields):
    """The run of a tiny encoder or of a tiny teacher."""
    student = sizes(hidden_dim, num_layers=3)
    return TINY | {"recipe": recipe, "student": student} | fields


def _embedder(about, kind, stages):
    """A tiny sentence encoder from a tiny encoder or cross-encoder."""
    layer = TINY | {
        "data": {"files": [], **ROWS, **EMBEDDER_DATA[about]},
        "teacher": "run:teacher",
        "student": {"copy_from": "teacher", "layers": [1, 3]},
        "pooling": None if about == "candidates" else "mean",
    }
    teacher = _first_run(TEXT, 48, corpus=CORPUS)
    if about == "candidates":
        teacher = _first_run(TEACHER, 48, data=DATA | SIMILARITY)
    if kind == "Static":
        layer["student"] = {"dimensions": 16}
    (stage,) = stages
    if "matryoshka" in [one.name for one in stage.objectives]:
        narrow = {"matryoshka": {"loss": {"dimensions": [24, 12]}}}
        layer["stages"] = {stage.name: {"objectives": narrow}}
    return layer | {"steps": {"teacher": teacher}}


def _chain(family):
    """Tiny decoders or encoder-decoders on generated text."""
    text, short, size = CORPUS | {"max_texts": 200}, SHORT, 300
    depths, more = ["num_layers"], {"family": family}
    if family == "mass":
        text, short, size = SENTENCES, SHORT | {"batch_tokens": 1024}, 400
        depths = ["encoder_num_layers", "decoder_num_layers"]
        more = {"max_sequence_length": 64}
    layer = {"tokenizer": size, "corpus": text, "general_text": text}
    for name, layers in (("decoder", 2), ("student", 1)):
        depth = dict.fromkeys(depths, layers)
        layer[name] = sizes(16 * layers, **depth, **more)
    return TINY | layer | {"every_stage": short}
