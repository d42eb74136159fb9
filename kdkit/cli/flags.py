"""Flags: a table from flag to field of a config, and words as nested dicts."""

import argparse
import re
import typing

from kdkit.config.fields import Strict, located
from kdkit.config.runs import EmbedderConfig, TaskConfig, TextConfig
from kdkit.errors import UsageError
from kdkit.settings import parse_value

TRAINING = {
    "epochs": "epochs",
    "batch-size": "batch_size",
    "learning-rate": "learning_rate",
    "seed": "training.seed",
    "mixed-precision": "training.dtype_policy",
    "strategy": "training.strategy",
    "cache": "cache.directory",
    "cache-precision": "cache.precision",
}
TASK = {
    "task": "data.task",
    "data-dir": "data.data_dir",
    "train": "data.table.train",
    "dev": "data.table.dev",
    "test": "data.table.test",
    "text-column": "data.table.text_columns",
    "label-column": "data.table.label_column",
    "labels": "data.table.labels",
    "regression": "data.table.regression",
    "max-length": "data.sequence_length",
}
TEXT = {
    "corpus": "corpus.files",
    "column": "corpus.column",
    "held-out": "corpus.held_out",
}
BENCHMARK_TEXT = {
    "one-document": "corpus.one_document",
    "detokenizer": "corpus.detokenizer",
}
STUDENT = {
    "student": "student.checkpoint",
    "num-layers": "student.num_layers",
    "layers": "student.layers",
}
CHAIN = {
    "decoder": "decoder",
    "tokenizer": "tokenizer",
    "vocabulary-size": "tokenizer",
    "corpus": "general_text.files",
    "column": "general_text.column",
    "held-out": "general_text.held_out",
    "task-held-out": "corpus.held_out",
    "max-length": "corpus.sequence_length",
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
    "data-dir": "data.scored.data_dir",
    "dev": "data.scored.table.dev",
    "text-column": "data.scored.table.text_columns",
    "label-column": "data.scored.table.label_column",
    "max-length": "data.sequence_length",
}
# The flags of a run, by what it is about.
FLAGS = {
    "teacher": {"model": "student.checkpoint"} | TASK | TRAINING,
    "task": {
        "teacher": "teacher",
        "encoder": "encoder",
        "teacher-weights": "teacher_weights",
        "pretrained": "pretrained",
        **STUDENT,
        "word-vectors": "student.word_vectors",
        "general": "general",
        "control": "control",
        "parity": "parity",
        "stages": "only_stages",
        "quantize": "quantize",
        **TASK,
        **TEXT,
        "unlabeled": "unlabeled.files",
        "unlabeled-columns": "unlabeled.columns",
        "unlabeled-per-labeled": "unlabeled.per_labeled",
        "augment": "augmented.file",
        "augment-model": "augment_model",
        "augment-vectors": "augment_vectors",
        **TRAINING,
    },
    "text": {
        "model": "student.checkpoint",
        "student": "student.checkpoint",
        "tokenizer": "tokenizer",
        "vocabulary-size": "tokenizer",
        "recipe": "recipe",
        "teacher": "teacher",
        "stage": "stage",
        "parity": "parity",
        **TEXT,
        **BENCHMARK_TEXT,
        "languages": "corpus.languages",
        "pairs": "pairs",
        "pair-columns": "corpus.columns",
        "max-length": "corpus.sequence_length",
        **TRAINING,
    },
    "decoder": {
        "task-text": "corpus.files",
        **CHAIN,
        **BENCHMARK_TEXT,
        **TRAINING,
    },
    "mass": {
        "pairs": "corpus.files",
        "pair-columns": "corpus.columns",
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
        "dev-parallel": "data.held_out",
        "tokenizer": "data.tokenizer",
        "vocabulary-size": "data.tokenizer",
        **EMBEDDER,
        **STUDENT,
        **TRAINING,
    },
    "candidates": {
        "candidates": "data.files",
        "dev-candidates": "data.held_out",
        **EMBEDDER,
        **STUDENT,
        **TRAINING,
    },
}
KINDS = {
    "teacher": TaskConfig,
    "task": TaskConfig,
    "text": TextConfig,
    "decoder": TextConfig,
    "mass": TextConfig,
}
# Names that are no fields, and where the table says more than the field.
HELP = {
    "epochs": "Epochs of the only stage. Of several: stages.NAME.epochs=N.",
    "batch_size": "Examples for each update of the only stage.",
    "learning_rate": "The highest learning rate of the only stage.",
    "encoder": "Fine-tune the teacher in this run first, from this encoder.",
    "general": "The run of general distillation. With --corpus it is made.",
    "augment_model": "Make the file of --augment with this language model.",
    "augment_vectors": "And with these word vectors.",
    "only_stages": "Only these stages of the recipe.",
    "quantize": "Then train with the rounding of a file of this precision.",
    "stage": "The stage of the recipe to run.",
    "pairs": "Files of sources and targets, in place of a corpus.",
    "general_text.files": "The text of the first steps.",
    "general_text.column": "The column with that text, for tables.",
    "general_text.held_out": "General text to measure on.",
    "general_text.languages": "The languages: one a file, the pairs' first.",
    "decoder": "The first step's model: a preset or a checkpoint.",
    "pretrained": "A model in place of the first step.",
    "student.checkpoint": "A preset's name or a model.",
    "student.num_layers": "How many layers are copied, or drawn.",
    "cache.directory": "The folder of the teachers' outputs, for many runs.",
    "data.table.train": "Your own table, in place of --task.",
    "data.table.dev": "The table that chooses the best epoch.",
    "data.table.test": "The table of kdkit evaluate --split test.",
    "data.table.text_columns": "The column with the texts, two for pairs.",
    "data.table.label_column": "The column with the labels or scores.",
    "data.table.labels": "The labels, in the order of the teacher's classes.",
    "data.table.regression": "Labels are scores.",
    "data.scored.task": "A task with scored pairs to measure on.",
    "data.scored.table.dev": "Your own table of scored pairs.",
    "data.scored.table.text_columns": "Its two columns with texts.",
    "data.scored.table.label_column": "Its column with the scores.",
}
MANY = ("only_stages", "pairs", "general_text.files", "general_text.held_out",
        "general_text.languages")  # fmt: skip
SWITCHES = ("control", "data.table.regression", "corpus.one_document")
LOCATED = ("cache.directory", "general")
TITLES = {"general_text": "corpus", "scored": "data"}
FIELD = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)*=.*", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are kdkit's."""

    def error(self, message):
        raise UsageError(message)


def field_at(kind, path: str):
    """Returns a config's field at a dotted path, `None` if it has none."""
    first, _, rest = path.partition(".")
    field = getattr(kind, "model_fields", {}).get(first)
    if field is None:
        field = getattr(kind, "__dataclass_fields__", {}).get(first)
    if field is None or not rest:
        return field
    found = (field_at(one, rest) for one in _kinds_in(_type_of(field)))
    return next((one for one in found if one is not None), None)


def _type_of(field):
    return getattr(field, "annotation", None) or getattr(field, "type", None)


def _kinds_in(annotation) -> list:
    """The classes with fields in a field's type."""
    if isinstance(annotation, type) and (
        issubclass(annotation, Strict)
        or hasattr(annotation, "__dataclass_fields__")
    ):
        return [annotation]
    found = map(_kinds_in, typing.get_args(annotation))
    return [one for some in found for one in some]


def add_flags(parser: Parser, about: str) -> None:
    """Adds the flags of a run, in groups by the first part of their field.

    Args:
        parser: `Parser`.
        about: string, a key of `FLAGS`.
    """
    kind, groups = KINDS.get(about, EmbedderConfig), {}
    for name, path in FLAGS[about].items():
        title = path.partition(".")[0] if "." in path else "run"
        title = TITLES.get(title, title)
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        field = field_at(kind, path)
        how = {"metavar": name.split("-")[-1].upper()}
        if path in SWITCHES:
            how = {"action": "store_const", "const": True}
        elif path in MANY or _is_many(field):
            how["nargs"] = "+"
        text = HELP.get(path) or getattr(field, "description", None) or ""
        groups[title].add_argument(
            f"--{name}",
            dest=path,
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
            **how,
        )


def _is_many(field):
    annotation = _type_of(field)
    kinds = (annotation, *typing.get_args(annotation))
    return any(
        typing.get_origin(getattr(one, "__origin__", one)) is tuple
        or typing.get_origin(one) is tuple
        for one in kinds
    )


def parsed(parser: Parser, words, about: str) -> tuple[dict, dict, list[str]]:
    """Returns the fields in words, other options, and words of no flag.

    A word `field.path=value` sets any field, also after --set; the value is
    JSON where it parses, else text.
    """
    fields = [one for one in words if FIELD.fullmatch(one)]
    words = [one for one in words if one not in (*fields, "--set")]
    flags, unknown = parser.parse_known_args(words)
    tree, others = {}, {}
    paths = FLAGS[about].values()
    for path, value in vars(flags).items():
        if path in LOCATED:
            value = located(value)
        if path.endswith("tokenizer") and value.isdecimal():
            value = int(value)
        put(tree if path in paths else others, path, value)
    for one in fields:
        path, text = one.split("=", 1)
        put(tree, path, parse_value(text))
    if pairs := tree.pop("pairs", None):
        tree["corpus"] = {
            **tree.get("corpus", {}), "kind": "pairs", "files": pairs,
        }  # fmt: skip
    policy = tree.get("training", {}).get("dtype_policy")
    if policy in ("bfloat16", "float16"):
        tree["training"]["dtype_policy"] = f"mixed_{policy}"
    return tree, others, unknown


def put(tree: dict, path: str, value) -> None:
    """Sets a value in nested dicts, for a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value
