"""Flags: a table from flag to field of a config, and words as nested dicts."""

import argparse
import dataclasses
import functools
import inspect
import pathlib
import re
import typing

from kdkit.config.data import Augmentation
from kdkit.config.fields import Strict, descriptions, located
from kdkit.config.layers import (
    TEACHER,
    augmentation_of,
    config_of,
    kind_of,
    named_by,
)
from kdkit.config.layers import TEXT as TEXT_RECIPE
from kdkit.config.runs import EmbedderConfig, TaskConfig, TextConfig
from kdkit.errors import UsageError, unknown
from kdkit.settings import merged, parse_value

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
FLAGS["augment"] = {
    "model": "model",
    **{name: TASK[name] for name in TASK if name != "max-length"},
    "word-vectors": "word_vectors",
    "stop-words": "stop_words",
    "copies": "num_copies",
    "probability": "probability",
    "candidates": "num_candidates",
    "sequential": "sequential",
    "parity": "parity",
    "seed": "seed",
}
KINDS = {
    "augment": Augmentation,
    "teacher": TaskConfig,
    "task": TaskConfig,
    "text": TextConfig,
    "decoder": TextConfig,
    "mass": TextConfig,
}
# Names that are no fields, and fields without a docstring.
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
    "data.table.train": "Your own table, in place of --task.",
    "data.table.dev": "The table that chooses the best epoch.",
    "data.table.test": "The table of kdkit evaluate --split test.",
    "data.table.text_columns": "The column with the texts, two for pairs.",
    "data.table.label_column": "The column with the labels or scores.",
    "data.table.labels": "The labels, in the order of the teacher's classes.",
    "data.table.regression": "Labels are scores.",
    "data.scored.table.dev": "Your own table of scored pairs.",
    "data.scored.table.text_columns": "Its two columns with texts.",
    "data.scored.table.label_column": "Its column with the scores.",
}
MANY = (
    "only_stages",
    "pairs",
    "general_text.files",
    "general_text.held_out",
    "general_text.languages",
)
SWITCHES = (
    "control",
    "sequential",
    "data.table.regression",
    "corpus.one_document",
)
LOCATED = ("cache.directory", "general")
TITLES = {"general_text": "corpus"}
FIELDS = "[options] [field.path=value ...]  (fields: kdkit init RECIPE)"
FIELD = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)*=.*", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser of the flags that are no fields, whose errors are kdkit's."""

    def __init__(self, verb, text, options, more=""):
        about, *example = inspect.cleandoc(text).partition("example:\n")
        super().__init__(
            f"kdkit {verb}",
            usage=" ".join(f"kdkit {verb} {more}".split()),
            description=about.strip(),
            epilog="".join(example),
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter,
                max_help_position=26,
                width=80,
            ),
        )
        for flag, details in options.items():
            details = {"metavar": flag.split("_")[-1].upper(), **details}
            if "action" in details:
                del details["metavar"]
            self.add_argument(f"--{flag.replace('_', '-')}", **details)

    def error(self, message):
        """Raises a mistake, which `main` prints."""
        raise UsageError(f"{message[:1].upper()}{message[1:]}.")


def field_at(kind, path: str):
    """Returns the type and the docstring of a config's field.

    `None` and an empty string if it has no such field.
    """
    first, _, rest = path.partition(".")
    fields = getattr(kind, "model_fields", None)
    fields = fields or getattr(kind, "__dataclass_fields__", {})
    if first not in fields:
        return None, ""
    field = fields[first]
    annotation = getattr(field, "annotation", None) or field.type
    if not rest:
        texts = descriptions(kind) if issubclass(kind, Strict) else {}
        return field, texts.get(first, "")
    found = (field_at(one, rest) for one in _kinds_in(annotation))
    return next((one for one in found if one[0] is not None), (None, ""))


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
        field, text = field_at(kind, path)
        how = {"metavar": _metavar(field, name)}
        if path in SWITCHES:
            how = {"action": "store_const", "const": True}
        elif path in MANY or _is_many(field):
            how["nargs"] = "+"
        text = text or HELP.get(path, "")
        groups[title].add_argument(
            f"--{name}",
            dest=path,
            default=argparse.SUPPRESS,
            help=text.replace("%", "%%"),
            **how,
        )


def _metavar(field, name):
    """A word for a flag's value."""
    annotation = str(getattr(field, "annotation", None))
    found = f"{annotation}{getattr(field, 'metadata', '')}"
    found = "" if "Literal" in annotation else found
    words = {
        "is_model=True": "MODEL",
        "is_model=False": "FILE",
        "int": "N",
        "float": "X",
    }
    marked = (words[one] for one in words if one in found)
    return next(marked, name.split("-")[-1].upper())


def _is_many(field):
    """Whether a field is a tuple, of texts or of numbers."""
    annotation = getattr(field, "annotation", None)
    annotation = annotation or getattr(field, "type", None)
    kinds = (annotation, *typing.get_args(annotation))
    return any(typing.get_origin(one) is tuple for one in kinds)


@dataclasses.dataclass(frozen=True)
class Asked:
    """What words ask for: a run's fields, and how to run it.

    Args:
        source: string. A recipe's name or a file's place.
        tree: nested dict of fields and short names.
        options: `argparse.Namespace` of the other flags.
        mistakes: list of strings, about words that are no flags or fields.
    """

    source: str | None
    tree: dict
    options: argparse.Namespace
    mistakes: list[str]

    def config(self):
        """Returns the config; all mistakes are told together."""
        mistakes = list(self.mistakes)
        smoke = getattr(self.options, "smoke", False)
        try:
            if self.source == "augment":
                config = augmentation_of(self.tree)
            elif self.source is not None:
                config = config_of(self.source, self.tree, smoke)
        except UsageError as error:
            mistakes.append(str(error))
        if mistakes:
            raise UsageError("\n".join(mistakes))
        return config


# Fields of the verbs whose words begin with no recipe.
OF_VERB = {"teacher": {"teacher": []}, "text": {"kind": "text"}}
SOURCES = {"teacher": TEACHER, "text": TEXT_RECIPE, "augment": "augment"}


def asked(
    verb: str, text: str, words, options: dict, about=None, needs=()
) -> Asked:
    """Returns what words ask for, or prints the help and exits.

    Args:
        verb: string.
        text: string. The verb's help, whose end is `example:`.
        words: list of strings. The first one is a recipe's name or a file, if
            `about` is `None`.
        options: dict from flags that are no fields to details for argparse.
        about: string or `None`. A key of `FLAGS`. Defaults to what the recipe
            is about.
        needs: tuple of strings. The options that must be there.
    """
    words, source = _taken(list(words), "--config")
    tree, title = {**OF_VERB.get(about, {})}, ""
    if about is None:
        words, family = _taken(words, "--model")
        tree |= {} if family is None else {"model": family}
        if source is None and words and not words[0].startswith("-"):
            source = words.pop(0)
        title = source or "RECIPE|FILE"
        if source is not None:
            about = kind_of(named_by(source) | tree)
    parser = Parser(verb, text, options, f"{title} {FIELDS}")
    if about is None:
        found, _ = parser.parse_known_args(words)
        given, mistakes = {}, ["Missing: RECIPE or FILE. See kdkit list."]
    else:
        add_flags(parser, about)
        given, found, mistakes = _parsed(parser, words, about)
    missing = [name for name in needs if getattr(found, name) is None]
    mistakes += [f"Missing: --{one.replace('_', '-')}." for one in missing]
    named = given.pop("recipe", SOURCES.get(about))
    return Asked(source or named, merged(tree, given), found, mistakes)


def _taken(words, flag):
    """The words without a flag and its value, and the value."""
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            return words[:place] + words[place + 2 :], words[place + 1]
        if word.startswith(f"{flag}="):
            return words[:place] + words[place + 1 :], word[len(flag) + 1 :]
    return words, None


def _parsed(parser, words, about):
    """The fields in words, the other options, and mistakes.

    A word `field.path=value` sets any field, also after --set; the value is
    JSON where it parses, else text.
    """
    fields = [
        one
        for one in words
        if FIELD.fullmatch(one) and not pathlib.Path(one).exists()
    ]
    words = [one for one in words if one not in (*fields, "--set")]
    found, others = parser.parse_known_args(words)
    tree, paths = {}, {*FLAGS[about].values()}
    for path in paths & {*vars(found)}:
        value = vars(found).pop(path)
        if path in LOCATED:
            value = located(value)
        if path.endswith("tokenizer"):
            value = parse_value(value)
        put(tree, path, value)
    for one in fields:
        path, text = one.split("=", 1)
        put(tree, path, parse_value(text))
    if pairs := tree.pop("pairs", None):
        text = {"kind": "pairs", "files": pairs}
        tree["corpus"] = {**tree.get("corpus", {}), **text}
    policy = tree.get("training", {}).get("dtype_policy")
    if policy in ("bfloat16", "float16"):
        tree["training"]["dtype_policy"] = f"mixed_{policy}"
    flags = [one for one in parser._option_string_actions if one[2:]]
    return tree, found, [
        str(unknown("option", one.partition("=")[0], flags))
        if one.startswith("--")
        else f"Unexpected: {one}."
        for one in others
    ]


def put(tree: dict, path: str, value) -> None:
    """Sets a value in nested dicts, for a dotted path."""
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = value
