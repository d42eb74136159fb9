"""Short names for fields: the flags of the command line, with underscores.

`kdkit.distill` takes the same names as arguments.
"""

from kdkit.config.fields import located
from kdkit.errors import unknown
from kdkit.settings import parse_value

TRAINING = {
    "epochs": "epochs",
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "seed": "training.seed",
    "mixed_precision": "training.dtype_policy",
    "strategy": "training.strategy",
    "cache": "cache.directory",
    "cache_precision": "cache.precision",
}
TASK = {
    "task": "data.task",
    "data_dir": "data.data_dir",
    "train": "data.table.train",
    "dev": "data.table.dev",
    "test": "data.table.test",
    "text_column": "data.table.text_columns",
    "label_column": "data.table.label_column",
    "labels": "data.table.labels",
    "regression": "data.table.regression",
    "max_length": "data.sequence_length",
}
TEXT = {
    "corpus": "corpus.files",
    "column": "corpus.column",
    "held_out": "corpus.held_out",
}
BENCHMARK_TEXT = {
    "one_document": "corpus.one_document",
    "detokenizer": "corpus.detokenizer",
}
STUDENT = {
    "student": "student.checkpoint",
    "num_layers": "student.num_layers",
    "layers": "student.layers",
}
CHAIN = {
    "decoder": "decoder",
    "tokenizer": "tokenizer",
    "vocabulary_size": "tokenizer",
    "corpus": "general_text.files",
    "column": "general_text.column",
    "held_out": "general_text.held_out",
    "task_held_out": "corpus.held_out",
    "max_length": "corpus.sequence_length",
    "pretrained": "pretrained",
    "teacher": "teacher",
    "general": "general",
    "student": "student.checkpoint",
}
EMBEDDER = {
    "teacher": "teacher",
    "pooling": "pooling",
    "parity": "parity",
    "control": "control",
    "task": "data.scored.task",
    "data_dir": "data.scored.data_dir",
    "dev": "data.scored.table.dev",
    "text_column": "data.scored.table.text_columns",
    "label_column": "data.scored.table.label_column",
    "max_length": "data.sequence_length",
}
# The names for a run, by what it is about.
NAMES = {
    "teacher": {"model": "student.checkpoint"} | TASK | TRAINING,
    "task": {
        "teacher": "teacher",
        "encoder": "encoder",
        "teacher_weights": "teacher_weights",
        "pretrained": "pretrained",
        **STUDENT,
        "word_vectors": "student.word_vectors",
        "general": "general",
        "control": "control",
        "parity": "parity",
        "stages": "only_stages",
        "quantize": "quantize",
        **TASK,
        **TEXT,
        "unlabeled": "unlabeled.files",
        "unlabeled_columns": "unlabeled.columns",
        "unlabeled_per_labeled": "unlabeled.per_labeled",
        "augment": "augmented.file",
        "augment_model": "augment_model",
        "augment_vectors": "augment_vectors",
        **TRAINING,
    },
    "text": {
        "model": "student.checkpoint",
        "student": "student.checkpoint",
        "tokenizer": "tokenizer",
        "vocabulary_size": "tokenizer",
        "recipe": "recipe",
        "teacher": "teacher",
        "stage": "stage",
        "parity": "parity",
        **TEXT,
        **BENCHMARK_TEXT,
        "languages": "corpus.languages",
        "pairs": "corpus.files",
        "pair_columns": "corpus.columns",
        "max_length": "corpus.sequence_length",
        **TRAINING,
    },
    "decoder": {
        "task_text": "corpus.files",
        **CHAIN,
        **BENCHMARK_TEXT,
        **TRAINING,
    },
    "mass": {
        "pairs": "corpus.files",
        "pair_columns": "corpus.columns",
        "languages": "general_text.languages",
        **CHAIN,
        **TRAINING,
    },
    "texts": {
        "texts": "data.files",
        "column": "data.column",
        **EMBEDDER,
        **STUDENT,
        **TRAINING,
    },
    "translations": {
        "parallel": "data.files",
        "dev_parallel": "data.held_out",
        "tokenizer": "data.tokenizer",
        "vocabulary_size": "data.tokenizer",
        **EMBEDDER,
        **STUDENT,
        **TRAINING,
    },
    "candidates": {
        "candidates": "data.files",
        "dev_candidates": "data.held_out",
        **EMBEDDER,
        **STUDENT,
        **TRAINING,
    },
}
NAMES["augment"] = {
    "model": "model",
    **{name: TASK[name] for name in TASK if name != "max_length"},
    "word_vectors": "word_vectors",
    "stop_words": "stop_words",
    "copies": "num_copies",
    "probability": "probability",
    "candidates": "num_candidates",
    "sequential": "sequential",
    "parity": "parity",
    "seed": "seed",
}


def fields_of(about: str, named: dict) -> dict:
    """Returns fields as nested dicts, for values by their short names.

    Args:
        about: string, a key of `NAMES`.
        named: dict from short name to value.
    """
    tree, paths = {}, NAMES[about]
    for name, value in named.items():
        if name not in paths:
            raise unknown("name", name, paths)
        if name in ("cache", "general"):
            value = located(value)
        if name == "mixed_precision" and value in ("bfloat16", "float16"):
            value = f"mixed_{value}"
        if name == "vocabulary_size" and isinstance(value, str):
            value = parse_value(value)
        if name == "pairs":
            put(tree, "corpus.kind", "pairs")
        put(tree, paths[name], value)
    return tree


def put(tree: dict, path: str, value) -> None:
    """Sets a value in nested dicts, for a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value
