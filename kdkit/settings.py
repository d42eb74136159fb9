"""Settings as frozen dataclasses: JSON, overrides, differences."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import parse_json

BRIEF = 80  # characters of a value in a list of differences


def to_dict(settings) -> dict:
    """Returns nested settings as plain dicts and lists for JSON."""
    return json.loads(json.dumps(_plain(settings)))


def _plain(value):
    if hasattr(value, "to_setting"):
        return value.to_setting()
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def from_dict(kind, values: dict):
    """Builds settings of a dataclass from a result of `to_dict`."""
    return _convert(kind, values, "")


def override(settings, assignments: Sequence[str]):
    """Returns settings with `dotted.field=value` texts applied."""
    values = to_dict(settings)
    for assignment in assignments:
        path, text = assignment.split("=", 1)
        _assign(values, path, parse_value(text))
    return _convert(type(settings), values, "")


def canonical_path(settings, path: str) -> str | None:
    """Returns a dotted path for `override`, with names instead of indices."""
    values, found = to_dict(settings), []
    *parents, last = path.split(".")
    for key in parents:
        place = _place(values, key)
        if place is None or (isinstance(values, dict) and key not in values):
            return None
        found.append(_name_at(values, place))
        values = values[place]
    place = _place(values, last)
    if place is None:
        return None
    return ".".join([*found, _name_at(values, place)])


def _name_at(values, place):
    """Returns the name of the entry at an index or key."""
    entry = values[place] if isinstance(values, list) else None
    if isinstance(entry, dict) and "name" in entry:
        return entry["name"]
    return str(place)


def parse_value(text: str):
    """Parses a value as `override` does: as JSON, or else as a string."""
    try:
        return parse_json(text, object)
    except UsageError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def differences(first: dict, second: dict) -> list[str]:
    """Lists the fields in which two dicts of settings differ, as strings."""
    return [
        f"{field}: {one} -> {other}"
        for field, (one, other) in differing_fields(first, second).items()
    ]


def differing_fields(first: dict, second: dict) -> dict[str, tuple[str, str]]:
    """Returns the fields in which two dicts of settings differ."""
    return dict(_differences(first, second, ""))


def _assign(values, path, value):
    """Sets a value in nested dicts and lists."""
    *parents, last = path.split(".")
    for key in parents:
        place = _place(values, key)
        if place is None or (isinstance(values, dict) and key not in values):
            raise _unknown_field(path, key, values)
        values = values[place]
    place = _place(values, last)
    if place is None:
        raise _unknown_field(path, last, values)
    values[place] = value


def _unknown_field(path, name, values):
    """The error for a part of a path, with the fields that are there."""
    before = path.removesuffix(name).partition(f".{name}.")[0].strip(".")
    where = f"field of {before}" if before else "field"
    return unknown(where, name, _parts(values) or ())


def _place(values, key):
    """Returns the index or key for a key; `None` if there is none."""
    if isinstance(values, list):
        return _index(values, key)
    return key if isinstance(values, dict) else None


def _index(entries, key):
    for position, entry in enumerate(entries):
        if key == str(position) or (
            isinstance(entry, dict) and entry.get("name") == key
        ):
            return position
    return None


def _convert(kind, value, path):
    """Converts a JSON value to a type."""
    origin = typing.get_origin(kind)
    if hasattr(kind, "from_setting"):
        try:
            return kind.from_setting(value)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _convert_dataclass(kind, value, path)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(kind, value, path)
    arguments = typing.get_args(kind)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(
            _convert(arguments[0], entry, f"{path}.{position}")
            for position, entry in enumerate(value)
        )
    if origin is dict and isinstance(value, dict):
        return {
            str(key): _convert(arguments[1], entry, f"{path}.{key}")
            for key, entry in value.items()
        }
    if isinstance(kind, type) and origin is None and _fits(kind, value):
        return float(value) if kind is float else value
    raise UsageError(
        f"Wrong type for {path!r}. Expected {getattr(kind, '__name__', kind)}. "
        f"Received: {value!r}."
    )


def _convert_dataclass(kind, value, path):
    """Converts the fields of a dict."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    prefix = f"{path}." if path else ""
    converted = {}
    for name, entry in value.items():
        if name not in fields:
            raise _unknown_field(prefix + name, name, fields)
        converted[name] = _convert(hints[name], entry, prefix + name)
    for name, field in fields.items():
        if name not in value and (
            field.default is field.default_factory is dataclasses.MISSING
        ):
            raise UsageError(f"Setting {prefix + name!r} is missing.")
    return kind(**converted)


def _convert_union(kind, value, path):
    """Returns the value as the first member of the union that it fits."""
    members = [one for one in typing.get_args(kind) if one is not type(None)]
    if value is None and len(members) < len(typing.get_args(kind)):
        return None
    errors = {}
    for member in members:
        try:
            return _convert(member, value, path)
        except UsageError as error:
            errors[member] = error

    def likeness(member):
        """How many of the value's fields a member has."""
        if not (dataclasses.is_dataclass(member) and isinstance(value, dict)):
            return -1
        fields = {field.name for field in dataclasses.fields(member)}
        return len(fields & {*value})

    raise errors[max(members, key=likeness)]


def _fits(kind, value):
    if kind is float:
        is_number = isinstance(value, int | float)
        is_number = is_number and not isinstance(value, bool)
        return is_number and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _differences(first, second, path):
    """Yields fields and values, as deep as both sides have the same shape."""
    if first == second:
        return
    first_parts, second_parts = _parts(first), _parts(second)
    if not first_parts or not second_parts:
        yield path, (_brief(first), _brief(second))
        return
    for key in dict.fromkeys([*first_parts, *second_parts]):
        yield from _differences(
            first_parts.get(key, "not set"),
            second_parts.get(key, "not set"),
            f"{path}.{key}" if path else key,
        )


def _parts(value):
    """The entries of a dict, or of a list of dicts, by key; or else `None`."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and any(isinstance(x, dict) for x in value):
        return {
            entry["name"]
            if isinstance(entry, dict) and "name" in entry
            else str(position): entry
            for position, entry in enumerate(value)
        }
    return None


def _brief(value):
    """A value in a line: of longer ones, what they are made of."""
    if value == "not set":
        return value
    parts = _parts(value)
    text = f"({', '.join(parts)})" if parts else json.dumps(value)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


def too_small(settings, least: Mapping[str, float]) -> list[str]:
    """Returns what is wrong with the numbers of settings, as texts."""
    hints = typing.get_type_hints(type(settings))
    problems = []
    for name, lowest in least.items():
        value = getattr(settings, name)
        may_be_none = type(None) in typing.get_args(hints[name])
        if (may_be_none and value is None) or lowest <= value < math.inf:
            continue
        problems.append(
            f"{name} must be {'null or ' * may_be_none}"
            f"{'finite and ' * isinstance(value, float)}at least {lowest}, "
            f"received {value}"
        )
    return problems
