"""Settings as typed dataclasses: their types, JSON, mistakes in words."""

import functools
from typing import Annotated, Literal

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from kdkit.errors import UsageError, unknown

# How settings are checked: `pydantic.dataclasses.dataclass(config=STRICT)`.
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=1)]
Every = Annotated[int, Field(ge=2)]  # one in so many
Length = Annotated[int, Field(ge=3)]  # of a sequence, with its special tokens
Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
Policy = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Strategy = Literal["mirrored", "multi_worker"]


_adapter = functools.cache(TypeAdapter)


def to_dict(settings) -> dict:
    """Returns nested settings as plain dicts and lists for JSON."""
    return _adapter(type(settings)).dump_python(settings, mode="json")


def from_dict(kind, values: dict, names=None):
    """Builds settings of a dataclass or a config from nested dicts.

    Args:
        kind: the dataclass, the config, or a union of configs.
        values: nested dict, such as a result of `to_dict`.
        names: function from `kind` and a place in the dicts to the fields that
            are known there. Optional. Defaults to those that are given.

    Raises:
        UsageError: with a line for each mistake.
    """
    try:
        return _adapter(kind).validate_python(values)
    except ValidationError as error:
        names = names and functools.partial(names, kind)
        raise UsageError(in_words(error, values, names)) from error


def in_words(error: ValidationError, values=None, names=None) -> str:
    """Returns a line for each mistake in settings, with the field's path.

    Args:
        error: `pydantic.ValidationError`.
        values: the nested dicts that were validated. Optional.
        names: function from a place in them to the fields that are known
            there. Optional. Defaults to those that are given.
    """
    errors = error.errors(include_url=False)
    # Of a union of a text and settings, only the settings' mistakes count.
    inside = [
        one
        for one in errors
        if not (isinstance(one["input"], dict) and one["type"] in SCALARS)
    ]
    lines = [_mistake(one, values, names) for one in inside or errors]
    return "\n".join(dict.fromkeys(lines))


UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
SCALARS = ("string_type", "int_type", "float_type", "bool_type")


def _mistake(one, values, names):
    """A mistake, with its path without the names of a union's members."""
    path, parts, others = [], values, {}
    for key in one["loc"]:
        if isinstance(parts, dict) and isinstance(key, int):
            key = [*parts][key]  # entries by name
        is_field = isinstance(parts, dict) and key in parts
        is_entry = isinstance(parts, list | tuple) and isinstance(key, int)
        if is_field or is_entry:
            path.append(_name_at(parts, key))
            parts, others = parts[key], parts
    *before, name = path or [""]
    known = ()
    if one["type"] in UNKNOWN:
        known = names(one["loc"][:-1]) if names else {*others} - {name}
    if known:
        what = " of ".join(["field", *before[-1:]])
        return str(unknown(what, name, known))
    if one["type"] == "missing":
        path.append(str(one["loc"][-1]))
    text = one["msg"].removeprefix("Value error, ").removesuffix(".")
    received = one["input"]
    if isinstance(received, UsageError):  # found before validation
        text = str(received).removesuffix(".")
    if isinstance(received, str | int | float | None):
        text += f". Received: {received!r:.80}"
    return ": ".join(filter(None, [".".join(path), f"{text}."]))


def _name_at(values, place):
    """Returns the name of the entry at an index or key."""
    entry = values[place] if isinstance(values, list) else None
    if isinstance(entry, dict) and "name" in entry:
        return entry["name"]
    return str(place)
