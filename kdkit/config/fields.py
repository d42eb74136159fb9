"""The types that fields of several configs have."""

import os
import pathlib
import typing
from collections.abc import Iterator
from typing import Annotated

import pydantic
from pydantic import AfterValidator, BeforeValidator, ConfigDict

from kdkit.late import LateModule
from kdkit.settings import STRICT

# Only where a task is named: kdkit.tasks imports NumPy.
tasks = LateModule("kdkit.tasks", "kdkit")


class Strict(pydantic.BaseModel):
    """A config: unknown fields are errors, and nothing changes later."""

    model_config = ConfigDict(
        **STRICT,
        frozen=True,
        defer_build=True,
        use_attribute_docstrings=True,
    )

    def replace(self, **changes) -> "Strict":
        """Returns a copy with some fields changed, checked again."""
        return type(self)(**{**dict(self), **changes})


def descriptions(kind: type[Strict]) -> dict[str, str]:
    """Returns the docstring of each field of a config."""
    fields = kind.model_fields
    return {name: one.description or "" for name, one in fields.items()}


def fields_of(kind: type) -> dict:
    """Returns the types of the fields of a config or of a dataclass."""
    fields = getattr(kind, "model_fields", None)
    fields = fields or getattr(kind, "__dataclass_fields__", {})
    return {name: _type(one) for name, one in fields.items()}


def _type(field):
    annotation = getattr(field, "annotation", None) or field.type
    marks = tuple(field.metadata)
    return Annotated[(annotation, *marks)] if marks else annotation


def kinds_in(annotation) -> list[type]:
    """Returns the classes with fields in a field's type."""
    if isinstance(annotation, type) and fields_of(annotation):
        return [annotation]
    return [
        kind for one in typing.get_args(annotation) for kind in kinds_in(one)
    ]


def names_at(annotation, place: tuple) -> list[str]:
    """Returns the fields that there are at a place of a pydantic error."""
    kinds = kinds_in(annotation)
    for key in place:
        tagged = [one for one in kinds if key in (one.__name__, _tag(one))]
        inner = [
            kind for one in kinds for kind in kinds_in(fields_of(one).get(key))
        ]
        kinds = tagged or inner or kinds
    return [*dict.fromkeys(name for one in kinds for name in fields_of(one))]


def _tag(kind):
    return getattr(getattr(kind, "model_fields", {}).get("kind"), "default", 0)


def absolute(place: str) -> str:
    """Makes an existing path absolute; returns other names unchanged."""
    return located(place) if os.path.exists(place) else place


def located(place) -> str:
    """Makes a path absolute, whether it exists or not."""
    return str(pathlib.Path(place).resolve())


def listed(value):
    """Returns one text as a list of texts; other values unchanged."""
    return [value] if isinstance(value, str) else value


class Input:
    """Marks a field whose content is an input of the run."""

    def __init__(self, is_model: bool):
        self.is_model = is_model

    def __repr__(self):
        return f"Input(is_model={self.is_model})"


ModelPath = Annotated[str, Input(is_model=True), AfterValidator(absolute)]
InputFile = Annotated[str, Input(is_model=False), AfterValidator(absolute)]
NewFile = Annotated[str, Input(is_model=False), AfterValidator(located)]
Folder = Annotated[str, AfterValidator(located)]
InputFiles = Annotated[tuple[InputFile, ...], BeforeValidator(listed)]
ModelPaths = Annotated[tuple[ModelPath, ...], BeforeValidator(listed)]
Strings = Annotated[tuple[str, ...], BeforeValidator(listed)]


def inputs_of(config: Strict, path: str = "") -> Iterator[tuple]:
    """Yields the path, mark and value of each input in a config."""
    for name, annotation in fields_of(type(config)).items():
        value, at = getattr(config, name), f"{path}{name}"
        mark = next(_marks(annotation), None)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Strict):
                yield from inputs_of(one, f"{at}.")
            elif one is not None and mark is not None:
                yield at, mark, one


def _marks(annotation) -> Iterator[Input]:
    """Yields the marks in a field's type."""
    if isinstance(annotation, Input):
        yield annotation
    for one in typing.get_args(annotation):
        yield from _marks(one)
