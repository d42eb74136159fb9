"""Settings as frozen dataclasses: JSON, overrides, differences."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence

from kdkit.errors import UsageError, shortened, suggestion
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
    problems = []
    settings = _convert(kind, values, "", problems)
    if problems:
        raise UsageError("\n".join(problems))
    return settings


def override(settings, assignments: Sequence[str]):
    """Returns settings with `dotted.field=value` texts applied."""
    values = to_dict(settings)
    problems = []
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator:
            problems.append(
                f"Expected dotted.field=value. Received: {assignment!r}."
            )
            continue
        _assign(values, path, parse_value(text), problems)
    result = _convert(type(settings), values, "", problems)
    if problems:
        raise UsageError("\n".join(problems))
    return result


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


def _assign(values, path, value, problems):
    """Sets a value in nested dicts and lists, or records an error."""
    *parents, last = path.split(".")
    for key in parents:
        place = _place(values, key)
        if place is None or (isinstance(values, dict) and key not in values):
            problems.append(_unknown(values, path, key))
            return
        values = values[place]
    place = _place(values, last)
    if place is None:
        problems.append(_unknown(values, path, last))
    else:
        values[place] = value


def _place(values, key):
    """Returns the index or key for a key; `None` if there is none."""
    if isinstance(values, list):
        return _index(values, key)
    return key if isinstance(values, dict) else None


def _unknown(values, path, key):
    valid = ", ".join(_parts(values) or ["nothing"])
    return (
        f"Unknown setting {path!r}: there is no {key!r}. Valid here: {valid}."
        f"{suggestion(key, _parts(values) or ())}"
    )


def _index(entries, key):
    for position, entry in enumerate(entries):
        if key == str(position) or (
            isinstance(entry, dict) and entry.get("name") == key
        ):
            return position
    return None


def _convert(kind, value, path, problems):
    """Converts a JSON value to a type, and records errors."""
    origin = typing.get_origin(kind)
    if hasattr(kind, "from_setting"):
        try:
            return kind.from_setting(value)
        except UsageError as error:
            problems.append(f"{path}: {error}")
            return None
    if dataclasses.is_dataclass(kind):
        return _convert_dataclass(kind, value, path, problems)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(kind, value, path, problems)
    if origin is tuple:
        if isinstance(value, list | tuple):
            entry_kind = typing.get_args(kind)[0]
            return tuple(
                _convert(entry_kind, entry, f"{path}.{position}", problems)
                for position, entry in enumerate(value)
            )
    elif origin is dict or kind is dict:
        if isinstance(value, dict):
            arguments = typing.get_args(kind)
            if not arguments:
                return dict(value)
            return {
                str(key): _convert(
                    arguments[1], entry, f"{path}.{key}", problems
                )
                for key, entry in value.items()
            }
    elif _fits(kind, value):
        return float(value) if kind is float else value
    problems.append(
        f"Wrong type for {path!r}. Expected {_kind_name(kind)}. "
        f"Received: {shortened(value)}."
    )
    return None


def _convert_dataclass(kind, value, path, problems):
    if not isinstance(value, dict):
        problems.append(
            f"Wrong type for {path!r}. Expected the fields of "
            f"{kind.__name__}. Received: {value!r}."
        )
        return None
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    prefix = f"{path}." if path else ""
    known_problems = len(problems)
    for name in sorted(set(value) - set(fields)):
        problems.append(
            f"Unknown setting {prefix + name!r}. Valid here: "
            f"{', '.join(fields)}.{suggestion(name, fields)}"
        )
    missing = [
        name
        for name, field in fields.items()
        if name not in value
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    for name in missing:
        problems.append(f"Setting {prefix + name!r} is missing.")
    converted = {
        name: _convert(hints[name], entry, prefix + name, problems)
        for name, entry in value.items()
        if name in fields
    }
    if len(problems) > known_problems:
        return None
    try:
        return kind(**converted)
    except UsageError as error:
        problems.append(str(error))
        return None


def _convert_union(kind, value, path, problems):
    """Returns the value as the first member of the union that it fits."""
    members = typing.get_args(kind)
    if value is None and type(None) in members:
        return None
    attempts = []
    for member in members:
        if member is type(None):
            continue
        attempt = []
        converted = _convert(member, value, path, attempt)
        if not attempt:
            return converted
        attempts.append((member, attempt))
    nested = [
        attempt
        for member, attempt in attempts
        if hasattr(member, "from_setting")
        or (dataclasses.is_dataclass(member) and isinstance(value, dict))
    ]
    problems.extend(
        # The intended member has the fewest errors.
        min(nested, key=len)
        if nested
        else [
            f"Wrong type for {path!r}. Expected {_kind_name(kind)}. "
            f"Received: {shortened(value)}."
        ]
    )
    return None


def _fits(kind, value):
    if kind is float:
        is_number = isinstance(value, int | float)
        is_number = is_number and not isinstance(value, bool)
        return is_number and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _kind_name(kind):
    if isinstance(kind, type) and typing.get_origin(kind) is None:
        return kind.__name__
    return str(kind).replace("NoneType", "None")


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
