"""Flags for the fields of a config, and words as nested dicts."""

import argparse
import dataclasses
import os
import re
import typing

from kdkit.cli.verb_flags import TABLE, VerbParser, flag, flag_name
from kdkit.config.data import Augmentation
from kdkit.config.fields import Strict, descriptions, fields_of, kinds_in
from kdkit.config.runs import EmbedderConfig, TaskConfig, TextConfig
from kdkit.errors import UsageError, unknown
from kdkit.runs.configure import config_of, named_by
from kdkit.runs.layers import TEXT, kind_of
from kdkit.runs.names import NAMES, fields_named, merged, parse_value

KINDS = {
    "augment": Augmentation,
    "teacher": TaskConfig,
    "task": TaskConfig,
    **dict.fromkeys(("text", "decoder", "mass"), TextConfig),
}
# Names that are no fields, and fields without a docstring.
HELP = {
    "epochs": "Epochs of the only stage. With several: stages.NAME.epochs=N.",
    "batch_size": "Examples for each update of the only stage.",
    "learning_rate": "The highest learning rate of the only stage.",
    "encoder": "Fine-tune the teacher in this run first, from this encoder.",
    "general": "A general distillation. For encoders, --corpus makes it.",
    "augment_model": "Make the file of --augment with this language model.",
    "augment_vectors": "Word vectors for --augment-model, such as GloVe's.",
    "stages": "Only these stages of the recipe.",
    "quantize": "Add a stage with a file's rounding: static_int8 or int4.",
    "stage": "The stage of the recipe to run.",
    "general_text.files": "The text of the first steps.",
    "general_text.column": "The column with that text, for tables.",
    "general_text.held_out": "General text to measure on.",
    "general_text.languages": "The languages: one a file, the pairs' first.",
    "decoder": "The first step's model: a preset or a checkpoint.",
    "pretrained": "A model in place of the first step.",
}
TITLES = {"general_text": "corpus"}
FIELDS = "[options] [field.path=value ...]  (fields: kdkit init RECIPE)"
FIELD = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)*=.*", re.DOTALL)


def field_at(kind, path: str):
    """Returns the type and the docstring of a config's field.

    `None` and an empty string if it has no such field.
    """
    first, _, rest = path.partition(".")
    annotation = fields_of(kind).get(first)
    if not rest:
        texts = descriptions(kind) if issubclass(kind, Strict) else {}
        return annotation, texts.get(first, "")
    found = (field_at(one, rest) for one in kinds_in(annotation))
    return next((one for one in found if one[0] is not None), (None, ""))


def add_flags(parser: VerbParser, about: str) -> None:
    """Adds the flags of a run, in groups by the first part of their field.

    Args:
        parser: `VerbParser`.
        about: string, a key of `NAMES`.
    """
    kind, groups = KINDS.get(about, EmbedderConfig), {}
    for name, path in NAMES[about].items():
        title = path.partition(".")[0] if "." in path else "run"
        title = TITLES.get(title, title)
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        _, text = field_at(kind, path)
        annotation, _ = field_at(kind, path.replace("general_text", "corpus"))
        how = {"metavar": _metavar(annotation, name)}
        if annotation is bool:
            how = {"action": "store_const", "const": True}
        elif name == "stages" or _is_many(annotation):
            how["nargs"] = "+"
        text = text or HELP.get(name) or HELP.get(path) or TABLE[name]["help"]
        text = f"{text[0].upper()}{text[1:].removesuffix('.')}."
        details = flag(text, default=argparse.SUPPRESS, **how)
        groups[title].add_argument(flag_name(name), **details)


def _metavar(annotation, name):
    """A word for a flag's value."""
    found = "" if "Literal" in str(annotation) else str(annotation)
    found = "int" if name == "vocabulary_size" else found
    words = {
        "is_model=True": "MODEL",
        "is_model=False": "FILE",
        "int": "N",
        "float": "X",
    }
    marked = (words[one] for one in words if one in found)
    return next(marked, name.split("_")[-1].upper())


def _is_many(annotation):
    """Whether a field is a tuple, of texts or of numbers."""
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

    def config(self, make=None):
        """Returns the config, or raises all mistakes together.

        Args:
            make: function from the fields to the config. Optional. Defaults to
                `config_of` of the source.
        """
        mistakes = list(self.mistakes)
        smoke = getattr(self.options, "smoke", False)
        try:
            if make is not None:
                config = make(self.tree)
            elif self.source is not None:
                config = config_of(self.source, self.tree, smoke)
        except UsageError as error:
            mistakes.append(str(error))
        if mistakes:
            raise UsageError("\n".join(mistakes))
        return config


# Fields of the verbs whose words begin with no recipe.
OF_VERB = {"teacher": {"teacher": []}, "text": {"kind": "text"}}
SOURCES = {"teacher": "fine_tuning", "text": TEXT}


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
        about: string or `None`. A key of `NAMES`. Defaults to what the recipe
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
    parser = VerbParser(verb, text, {}, {"": options}, f"{title} {FIELDS}")
    if about is None:
        found, _ = parser.parse_known_args(words)
        given, mistakes = {}, ["Missing: RECIPE or FILE. See kdkit list."]
    else:
        add_flags(parser, about)
        given, found, mistakes = _parsed(parser, words, about)
    missing = [name for name in needs if getattr(found, name) is None]
    mistakes += [f"Missing: {flag_name(one)}." for one in missing]
    named = given.get("recipe", SOURCES.get(about))
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
        one for one in words if FIELD.fullmatch(one) and not os.path.exists(one)
    ]
    words = [one for one in words if one not in (*fields, "--set")]
    found, others = parser.parse_known_args(words)
    given, values = vars(found), (one.split("=", 1) for one in fields)
    named = {name: given[name] for name in NAMES[about] if name in given}
    values = {path: parse_value(text) for path, text in values}
    tree = fields_named(about, named, values)
    known = [*vars(parser.parse_args([])), *NAMES[about]]
    flags = [*map(flag_name, known)]
    mistakes = [
        str(unknown("option", one.partition("=")[0], flags))
        if one.startswith("--")
        else f"Unexpected: {one}."
        for one in others
    ]
    return tree, found, mistakes
