"""Parsers generated from dataclasses of options.

A verb's options are one dataclass. A field's type decides how words are
converted to its value, and its `option` has the help. The base classes of the
dataclass are the groups of options.
"""

import collections
import dataclasses
import inspect
import json
import os
import pathlib
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Sequence

from kdkit.errors import UsageError, unknown

# Help pages: families of models, by the value of --model, and a recipe.
PAGES = {
    "bert": "encoders",
    "gpt2": "decoders",
    "mass": "encoder-decoders",
    "sentence_embedding": "sentence encoders",
    "static_embedding": "token vectors",
    "multilingual": "languages",
    "reranker_to_embedder": "rerankers",
}
FILES = (".toml", ".json")
HELP = ("-h", "--help", "--help-all")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)*=.*", re.DOTALL)
NEGATIVE = re.compile(r"-\.?\d.*")
FILE, MODEL = "file", "model"
# A file or folder that the user provides.
File = typing.Annotated[str, FILE]
# A model: a path, or the name of a preset.
Model = typing.Annotated[str, MODEL]


def option(help: str, default=None, **details):
    """Declares an option, as the default of a dataclass' field."""
    metadata = {"help": help, **details}
    if isinstance(default, list):
        return dataclasses.field(
            default_factory=default.copy, metadata=metadata
        )
    return dataclasses.field(default=default, metadata=metadata)


def changed(group: type, name: str, **changes):
    """Declares a group's option again, with some details changed."""
    (field,) = (one for one in dataclasses.fields(group) if one.name == name)
    details = {"default": field.default, **field.metadata, **changes}
    return option(**details)


@dataclasses.dataclass(frozen=True)
class Option:
    """An option or a positional argument of a verb.

    Args:
        name: string. The dataclass' field.
        help: string.
        kind: type, from the field: `bool`, `int`, `float`, `str`, or a type
            annotated with a function from a text to a value.
        group: type. The dataclass that declares it.
        is_list: bool. Whether it takes several values.
        flag: string. Defaults to the name as a flag.
        metavar: string. The value's name in help pages. Defaults to a word for
            the kind.
        choices: tuple. The allowed values.
        required: bool.
        positional: bool. Whether it has no flag.
        rare: bool. Whether only `--help-all` shows it. Defaults to `RARE` of
            the group, or `False`.
        count: int. The number of values in a list.
        pages: tuple of strings, keys of `PAGES`. The families of models that
            the option is for. Defaults to `PAGES` of the group, or all.
        assignments: bool. Whether its values have the form `field=value`.
        config_file: bool. Whether a TOML or JSON file may replace its value.
        value_optional: bool. Whether the flag may have no value, which gives
            an empty string. A path that exists is not taken as its value.
    """

    name: str
    help: str
    kind: object
    group: type
    is_list: bool = False
    flag: str | None = None
    metavar: str | None = None
    choices: tuple = ()
    required: bool = False
    positional: bool = False
    rare: bool = False
    count: int | None = None
    pages: tuple[str, ...] = tuple(PAGES)
    assignments: bool = False
    config_file: bool = False
    value_optional: bool = False

    @property
    def label(self) -> str:
        """The flag, or the name of a positional value."""
        if self.positional:
            return self.metavar or self.name.upper()
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def usage(self) -> str:
        """The flag and its values, as in help pages."""
        if self.positional or self.kind is bool:
            return self.label
        value = self.metavar or self._value_name()
        if self.value_optional:
            value = f"[{value}]"
        many = " ..." if self.is_list and self.count is None else ""
        return f"{self.label} {value}{many}"

    def _value_name(self):
        if self.choices:
            return "|".join(map(str, self.choices))
        if self.place is not None:
            return self.place.upper()
        kind = getattr(self.kind, "__origin__", self.kind)
        return {int: "N", float: "X"}.get(kind, "NAME")

    @property
    def place(self) -> str | None:
        """`"file"` or `"model"` if its values are paths, otherwise `None`."""
        marks = getattr(self.kind, "__metadata__", (None,))
        return marks[0] if marks[0] in (FILE, MODEL) else None

    def value(self, text: str):
        """Converts a text to a value."""
        convert = self.kind
        if hasattr(convert, "__metadata__"):
            (mark,) = convert.__metadata__
            convert = mark if callable(mark) else convert.__origin__
        try:
            value = convert(text)
        except ValueError as error:
            why = str(error).removesuffix(".")
            if convert in (int, float):
                why = f"invalid {convert.__name__} value: {text!r}"
            raise UsageError(f"{self.label}: {why}.") from None
        if self.choices and value not in self.choices:
            raise unknown(self.label, value, self.choices)
        return value


def declared_options(kind: type) -> dict[str, Option]:
    """Returns the options that a dataclass declares, by name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    groups = {}
    for group in kind.__mro__:
        for name in inspect.get_annotations(group):
            groups[name] = group  # the last group is the first to declare it
    order = {group: place for place, group in enumerate(kind.__mro__)}
    fields = {
        field.name: field
        for field in dataclasses.fields(kind)
        if "help" in field.metadata
    }
    return {
        name: _option(fields[name], hints[name], groups[name])
        for name in sorted(
            fields,
            key=lambda name: (
                not fields[name].metadata.get("positional"),
                order[groups[name]],
            ),
        )
    }


def _option(field, hint, group):
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (hint,) = (
            one for one in typing.get_args(hint) if one is not type(None)
        )
    is_list = typing.get_origin(hint) is list
    if is_list:
        (hint,) = typing.get_args(hint)
    of_group = {
        name: vars(group)[name.upper()]
        for name in ("pages", "rare")
        if name.upper() in vars(group)
    }
    details = {**of_group, **field.metadata}
    return Option(
        field.name, kind=hint, group=group, is_list=is_list, **details
    )


def names_in(*groups: type) -> list[str]:
    """Returns the names of the options that groups declare."""
    return [
        name
        for group in groups
        for name, declared in declared_options(group).items()
        if declared.group is group
    ]


class Parser:
    """Converts words to the dataclass of a verb's options.

    Args:
        name: string. The command before the options, such as
            `"kdkit distill"`.
        kind: dataclass of the options.
        text: string. The docstring of the verb's module.
    """

    def __init__(self, name: str, kind: type, text: str):
        self.name = name
        self.kind = kind
        self.text = text
        self.options = declared_options(kind)

    def parse_args(self, words: Sequence[str]):
        """Converts words to options."""
        given, positional = self._split(words)
        for one in self.options.values():
            if one.positional and positional:
                if one.config_file and positional[0].endswith(FILES):
                    return self._parse_file(positional[0], words)
                used = len(positional) if one.is_list else 1
                given[one.name] = positional[:used]
                positional = positional[used:]
        if positional:
            raise UsageError(f"Unexpected: {' '.join(positional)}.")
        values = {}
        for name, texts in given.items():
            declared = self.options[name]
            if declared.kind is bool:
                values[name] = not getattr(self.kind, name, None)
            else:
                found = [declared.value(text) for text in texts]
                last = found[-1] if found else ""
                values[name] = found if declared.is_list else last
        missing = [
            one.label
            for name, one in self.options.items()
            if one.required and name not in given
        ]
        if missing:
            raise UsageError(f"Missing: {', '.join(missing)}.")
        return self.kind(**values)

    def _split(self, words):
        """The texts for each option, and the words that belong to no option."""
        given, positional = {}, []
        queue = collections.deque(words)
        while queue:
            word = queue.popleft()
            if word == "--":
                positional += queue
                break
            if word in HELP:
                continue
            if not _is_flag(word):
                if self._is_assignment(word):
                    given.setdefault("set", []).append(word)
                else:
                    positional.append(word)
                continue
            flag, equals, text = word.partition("=")
            declared = self._find(flag)
            texts = [text] if equals else self._take(declared, queue)
            wanted = declared.count or int(declared.kind is not bool)
            wanted -= declared.value_optional
            if len(texts) < wanted or (texts and declared.kind is bool):
                raise UsageError(
                    f"{declared.label}: expected {_number(declared)}."
                )
            if declared.name == "set":
                given.setdefault("set", []).extend(texts)
            else:
                given[declared.name] = texts
        return given, positional

    def _find(self, flag):
        """The option for a flag or for the beginning of a flag."""
        flags = {
            one.label: one
            for one in self.options.values()
            if not one.positional
        }
        if flag in flags:
            return flags[flag]
        found = [name for name in flags if name.startswith(flag)]
        if len(found) != 1 or not flag.startswith("--"):
            raise unknown("option", flag, found or flags)
        return flags[found[0]]

    def _take(self, declared, queue):
        """Takes an option's values from the queue of words."""
        if declared.kind is bool:
            return []
        is_many = declared.is_list and declared.name != "set"
        most = declared.count or (len(queue) if is_many else 1)
        texts = []
        while queue and len(texts) < most and not _is_flag(queue[0]):
            if declared.value_optional and os.path.exists(queue[0]):
                break
            is_value = declared.assignments or not texts or declared.count
            if not is_value and self._is_assignment(queue[0]):
                break
            texts.append(queue.popleft())
        return texts

    def _is_assignment(self, word):
        return (
            "set" in self.options
            and ASSIGNMENT.fullmatch(word) is not None
            and not os.path.exists(word)
        )

    def _parse_file(self, name, words):
        """Converts a file of settings, and the words after it, to words."""
        at = list(words).index(name)
        before, after = list(words[:at]), list(words[at + 1 :])
        config = _read(pathlib.Path(name))
        if "verb" in config:  # the config.json of a run
            return self.parse_args([*before, "--config", name, *after])
        first, flags = [], []
        for key, value in config.items():
            declared = self.options.get(key.replace("-", "_"))
            if declared is None or _is_table(value):
                # [set.corpus] replaces [corpus], if that is also an option.
                path = "" if key == "set" else key
                for assignment in _assignments(path, value):
                    flags += ["--set", assignment]
            elif value is True:
                flags.append(declared.label)
            elif value is not None and value is not False:
                texts = value if isinstance(value, list) else [value]
                if declared.positional:
                    first += texts
                else:
                    flags += [declared.label, *map(_text, texts)]
        return self.parse_args([*first, *flags, *before, *after])


def is_path(model: str) -> bool:
    """Returns whether a model's name is a path, and not a preset."""
    path = pathlib.Path(model)
    # Names of presets may also have dots, such as qwen2.5_0.5b_en.
    is_file = path.suffix[1:].isalpha()
    has_folder = any(mark in str(model) for mark in {"/", os.sep})
    return is_file or (has_folder and "://" not in str(model))


def _is_flag(word):
    return (
        len(word) > 1
        and word.startswith("-")
        and " " not in word.partition("=")[0]
        and not NEGATIVE.fullmatch(word)
    )


def _number(declared):
    """The number of values that an option takes, in words."""
    if declared.kind is bool:
        return "no value"
    if declared.count:
        return f"{declared.count} values"
    return "at least one value" if declared.is_list else "a value"


def _read(file):
    """The entries of a TOML or JSON file."""
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_table(value):
    """Whether a TOML entry is a table of settings instead of an option."""
    entries = value if isinstance(value, list) else [value]
    return any(isinstance(entry, dict) for entry in entries)


def _assignments(path, value) -> Iterator[str]:
    """Yields the `dotted.field=value` texts for a TOML entry."""
    is_map = isinstance(value, dict) and all(
        key.isdigit() and isinstance(entry, int) for key, entry in value.items()
    )
    if isinstance(value, dict) and not (value and is_map):
        for key, entry in value.items():
            yield from _assignments(f"{path}.{key}" if path else key, entry)
    else:
        yield f"{path}={json.dumps(value, default=str)}"
