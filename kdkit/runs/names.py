"""Short names for fields: the flags of the command line, with underscores.

`kdkit.distill` takes the same names as arguments.
"""

from kdkit.config.fields import located
from kdkit.errors import UsageError
from kdkit.io.reading import parse_json


def _in(place: str, *names: str, **fields: str) -> dict[str, str]:
    """Short names: those of fields at a place, and others for fields there."""
    fields = dict(zip(names, names, strict=True)) | fields
    return {name: f"{place}{field}" for name, field in fields.items()}


def _examples(data: str, *names: str) -> dict[str, str]:
    """Names of the fields of a task, and of its tables."""
    columns = {"text_column": "text_columns", "label_column": "label_column"}
    return {
        **_in(data, "task", "data_dir"),
        **_in(f"{data}table.", *names, **columns),
    }


TRAINING = {
    **_in("", "epochs", "batch_size", "learning_rate"),
    **_in("training.", "seed", "strategy", mixed_precision="dtype_policy"),
    **_in("cache.", cache="directory", cache_precision="precision"),
}
SPLITS = ("train", "dev", "test", "labels", "regression")
TASK = _examples("data.", *SPLITS) | {"max_length": "data.sequence_length"}
TEXT = _in("corpus.", "column", "held_out", corpus="files")
BENCHMARK_TEXT = _in("corpus.", "one_document", "detokenizer")
PAIRS = _in("corpus.", pairs="files", pair_columns="columns")
TOKENIZER = {"tokenizer": "tokenizer", "vocabulary_size": "tokenizer"}
PLACE = "student.checkpoint"
STUDENT = {"student": PLACE, **_in("student.", "num_layers", "layers")}
ON_TEXT = {
    **TOKENIZER,
    "student": PLACE,
    "max_length": "corpus.sequence_length",
    **TRAINING,
}
CHAIN = {
    **_in("", "pretrained", "teacher", "general", "decoder"),
    **_in("general_text.", "column", "held_out", corpus="files"),
    "task_held_out": "corpus.held_out",
    **ON_TEXT,
}
EMBEDDER = {
    **_in("", "teacher", "pooling", "parity", "control"),
    **STUDENT,
    **_examples("data.scored.", "dev"),
    "max_length": "data.sequence_length",
    **TRAINING,
}
# The names for a run, by what it is about.
NAMES = {
    "teacher": {"model": PLACE, **TASK, **TRAINING},
    "task": {
        **_in("", "teacher", "encoder", "teacher_weights", "pretrained"),
        **STUDENT,
        **_in("student.", "word_vectors"),
        **_in("", "general", "control", "parity", "quantize"),
        "stages": "only_stages",
        **TASK,
        **TEXT,
        "unlabeled": "unlabeled.files",
        "unlabeled_columns": "unlabeled.columns",
        "unlabeled_per_labeled": "unlabeled.per_labeled",
        "augment": "augmented.file",
        **_in("", "augment_model", "augment_vectors"),
        **TRAINING,
    },
    "text": {
        "model": PLACE,
        **_in("", "recipe", "teacher", "parity"),
        "stage": "only_stages",
        **TEXT,
        **BENCHMARK_TEXT,
        **PAIRS,
        "languages": "corpus.languages",
        **ON_TEXT,
    },
    "decoder": {"task_text": "corpus.files", **CHAIN, **BENCHMARK_TEXT},
    "mass": {**PAIRS, "languages": "general_text.languages", **CHAIN},
    "texts": {"texts": "data.files", "column": "data.column", **EMBEDDER},
    "translations": {
        **_in("data.", parallel="files", dev_parallel="held_out"),
        **dict.fromkeys(TOKENIZER, "data.tokenizer"),
        **EMBEDDER,
    },
    "candidates": {
        **_in("data.", candidates="files", dev_candidates="held_out"),
        **EMBEDDER,
    },
    "augment": {
        **_examples("data.", *SPLITS),
        **_in("", "model", "word_vectors", "stop_words", "probability"),
        **_in("", "sequential", "parity", "seed", copies="num_copies"),
        "candidates": "num_candidates",
    },
}


def fields_named(about: str, named: dict, others: dict) -> dict:
    """Returns fields as nested dicts.

    Args:
        about: string, a key of `NAMES`.
        named: dict from short name to value.
        others: dict from dotted path to value.
    """
    tree, paths = {}, NAMES[about]
    for name, value in named.items():
        if name == "cache":
            value = located(value)
        if name == "mixed_precision" and value in ("bfloat16", "float16"):
            value = f"mixed_{value}"
        if "tokenizer" in paths[name] and isinstance(value, str):
            value = parse_value(value)
        if name == "pairs":
            put(tree, "corpus.kind", "pairs")
        put(tree, paths[name], value)
    for path, value in others.items():
        put(tree, path, value)
    return tree


def put(tree: dict, path: str, value) -> None:
    """Sets a value in nested dicts, for a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value


def merged(*trees: dict) -> dict:
    """Returns nested dicts as one. Later ones override earlier ones."""
    result = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def parse_value(text: str):
    """Parses a value: as JSON where it parses, or else as a string."""
    try:
        return parse_json(text, object)
    except UsageError:
        return {"True": True, "False": False, "None": None}.get(text, text)
