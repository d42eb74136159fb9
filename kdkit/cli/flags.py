"""Flags: a table from flag to field of a config, and words as nested dicts."""

import argparse
import re
import typing

from kdkit.config.fields import Strict
from kdkit.config.runs import EmbedderConfig, TaskConfig, TextConfig
from kdkit.settings import parse_value

KINDS = {"task": TaskConfig, "text": TextConfig, "embedder": EmbedderConfig}
TRAINING = {
    "seed": "training.seed",
    "mixed-precision": "training.dtype_policy",
    "strategy": "training.strategy",
    "cache": "cache.directory",
    "cache-precision": "cache.precision",
    "epochs": "epochs",
    "batch-size": "batch_size",
    "learning-rate": "learning_rate",
}
MODELS = {
    "teacher": "teacher",
    "student": "student.checkpoint",
    "num-layers": "student.num_layers",
    "layers": "student.layers",
    "parity": "parity",
}
# The flags of a run, by the kind of its config.
FLAGS = {
    "task": MODELS
    | {
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
        "teacher-weights": "teacher_weights",
        "pretrained": "pretrained",
        "encoder": "encoder",
        "general": "general",
        "corpus": "corpus.files",
        "column": "corpus.column",
        "held-out": "corpus.held_out",
        "word-vectors": "student.word_vectors",
        "unlabeled": "unlabeled.files",
        "unlabeled-columns": "unlabeled.columns",
        "unlabeled-per-labeled": "unlabeled.per_labeled",
        "augment": "augmented.file",
        "augment-model": "augment_model",
        "augment-vectors": "augment_vectors",
        "stages": "only_stages",
        "quantize": "quantize",
        "control": "control",
    }
    | TRAINING,
    "text": MODELS
    | {
        "stage": "stage",
        "corpus": "corpus.files",
        "column": "corpus.column",
        "held-out": "corpus.held_out",
        "languages": "corpus.languages",
        "one-document": "corpus.one_document",
        "detokenizer": "corpus.detokenizer",
        "pairs": "pairs",
        "pair-columns": "corpus.columns",
        "task-text": "task_text.files",
        "task-held-out": "task_text.held_out",
        "decoder": "decoder",
        "pretrained": "pretrained",
        "general": "general",
        "tokenizer": "tokenizer",
        "vocabulary-size": "tokenizer",
        "max-length": "corpus.sequence_length",
    }
    | TRAINING,
    "embedder": MODELS
    | {
        "texts": "data.files",
        "parallel": "data.files",
        "candidates": "data.files",
        "dev-parallel": "data.held_out",
        "dev-candidates": "data.held_out",
        "column": "data.column",
        "tokenizer": "data.tokenizer",
        "vocabulary-size": "data.tokenizer",
        "task": "data.scored.task",
        "data-dir": "data.scored.data_dir",
        "dev": "data.scored.table.dev",
        "text-column": "data.scored.table.text_columns",
        "label-column": "data.scored.table.label_column",
        "max-length": "data.sequence_length",
        "pooling": "pooling",
        "control": "control",
    }
    | TRAINING,
}
# Names that are no fields: what they say about fields and steps.
SHORT = {
    "epochs": "Epochs of the only stage; of several: stages.NAME.epochs=N.",
    "batch_size": "Examples for each update of the only stage.",
    "learning_rate": "The highest learning rate of the only stage.",
    "encoder": "Fine-tune the teacher in this run first, from this encoder.",
    "general": "Where the student of general distillation is, or is made.",
    "augment_model": "Make the file of --augment with this language model.",
    "augment_vectors": "And with these word vectors.",
    "only_stages": "Only these stages of the recipe.",
    "quantize": "Then train with the rounding of a file of this precision.",
    "stage": "The stage of the recipe to run.",
    "pairs": "Files of sources and targets, in place of a corpus.",
    "task_text.files": "The text of the task, for the last steps.",
    "task_text.held_out": "Text of the task to measure on.",
    "decoder": "The first step's model: a preset or a checkpoint.",
}
MANY = ("only_stages", "pairs", "task_text.files", "task_text.held_out")
FIELD = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)*=.*", re.DOTALL)


def field_at(kind, path: str):
    """Returns a config's field at a dotted path, `None` if it has none."""
    first, _, rest = path.partition(".")
    field = getattr(kind, "model_fields", {}).get(first)
    if field is None:
        field = getattr(kind, "__dataclass_fields__", {}).get(first)
    if field is None or not rest:
        return field
    annotation = getattr(field, "annotation", None) or field.type
    found = (field_at(one, rest) for one in _kinds_in(annotation))
    return next((one for one in found if one is not None), None)


def _kinds_in(annotation) -> list:
    """The classes with fields in a field's type."""
    if isinstance(annotation, type) and (
        issubclass(annotation, Strict)
        or hasattr(annotation, "__dataclass_fields__")
    ):
        return [annotation]
    found = map(_kinds_in, typing.get_args(annotation))
    return [one for some in found for one in some]


def add_flags(parser: argparse.ArgumentParser, kind: str, names=None) -> None:
    """Adds the flags of a kind of run, in groups by the first field.

    Args:
        parser: `argparse.ArgumentParser`.
        kind: string, a key of `FLAGS`.
        names: collection of strings. Only these flags. Defaults to all.
    """
    groups = {}
    for name, path in FLAGS[kind].items():
        if names is not None and name not in names:
            continue
        title = path.partition(".")[0] if "." in path else "run"
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        field = field_at(KINDS[kind], path)
        text = SHORT.get(path) or getattr(field, "description", None) or ""
        annotation = getattr(field, "annotation", None)
        how = {"metavar": name.split("-")[-1].upper()}
        if annotation is bool or path.endswith(("regression", "one_document")):
            how = {"action": "store_const", "const": True}
        elif _is_many(field) or path in MANY:
            how["nargs"] = "+"
        groups[title].add_argument(
            f"--{name}",
            dest=path,
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
            **how,
        )


def _is_many(field):
    annotation = getattr(field, "annotation", None) or getattr(
        field, "type", None
    )
    return any(
        typing.get_origin(one) is tuple
        for one in (annotation, *typing.get_args(annotation))
    )


def parsed(parser: argparse.ArgumentParser, words) -> tuple[dict, dict]:
    """Returns the fields in words as nested dicts, and other options.

    A word `field.path=value` sets any field, also after --set; the value is
    JSON where it parses, else text.
    """
    fields = [one for one in words if FIELD.fullmatch(one)]
    words = [one for one in words if one not in (*fields, "--set")]
    flags, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    tree, others = {}, {}
    paths = {path for flags in FLAGS.values() for path in flags.values()}
    for path, value in vars(flags).items():
        put(tree if path in paths else others, path, value)
    for one in fields:
        path, text = one.split("=", 1)
        put(tree, path, parse_value(text))
    policy = tree.get("training", {}).get("dtype_policy")
    if policy in ("bfloat16", "float16"):
        tree["training"]["dtype_policy"] = f"mixed_{policy}"
    return tree, others


def put(tree: dict, path: str, value) -> None:
    """Sets a value in nested dicts, for a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value
