"""The fields of events: their annotations, and how JSON data are read as them.

The annotations are stricter than their types: an `int` is a count from 0 to 2⁵³
and a `float` any number up to 1e100; a `bool` is neither. A field that a line
lacks, such as one of a later version, is `None`.
"""

import dataclasses
import functools
import types
import typing
from typing import Annotated

from kdkit.errors import UsageError

LARGEST = 1e100  # ratios and pictures of such numbers can be shown
LARGEST_COUNT = 1 << 53  # floats represent all integers up to it
# The lower limit is the annotation's second part. Reports divide by these.
PositiveInt = Annotated[int, 1]
PositiveFloat = Annotated[float, 1e-9]
Texts = str | tuple[str, ...]


class Fields:
    """An object that stores which fields it was made with."""

    _given = ()

    def __new__(cls, **fields):
        made = super().__new__(cls)
        given = tuple(name for name in fields if name != "line")
        object.__setattr__(made, "_given", given)
        return made

    def to_dict(self) -> dict:
        """Returns the fields that were passed, in that order, as JSON data."""
        values = {name: getattr(self, name) for name in self._given}
        return {name: _plain(value) for name, value in values.items()}


def _plain(value):
    if isinstance(value, Fields):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value


@functools.cache
def _hints(kind):
    """A line's fields by name: the annotation and whether it is required."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: (hints[field.name], field.default is dataclasses.MISSING)
        for field in dataclasses.fields(kind)
        if field.name != "line"
    }


def read_fields(kind: type[Fields], values: dict) -> dict:
    """Returns the arguments of a class, converted from a JSON object."""
    found = {}
    for name, (hint, is_needed) in _hints(kind).items():
        if name in values:
            found[name] = _converted(hint, values[name])
        elif is_needed:
            raise UsageError(f"Expected a field {name!r}. Got none.")
    return found


def _converted(hint, value):
    """A JSON value converted to an annotation's type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        if _converted(arguments[0], value) >= arguments[1]:
            return value
    elif origin in (types.UnionType, typing.Union):
        for member in arguments:
            try:
                return _converted(member, value)
            except UsageError:
                continue
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(_converted(arguments[0], entry) for entry in value)
    elif origin is dict:
        if isinstance(value, dict):
            return {
                key: _converted(arguments[1], entry)
                for key, entry in value.items()
            }
    elif dataclasses.is_dataclass(hint):
        if isinstance(value, dict):
            return hint(**read_fields(hint, value))
    elif hint is int:
        if type(value) is int and 0 <= value <= LARGEST_COUNT:
            return value
    elif hint is float:
        if type(value) in (int, float) and abs(value) <= LARGEST:
            return value
    elif isinstance(value, hint):
        return value
    raise UsageError(f"Expected {hint}. Got {value!r}.")
