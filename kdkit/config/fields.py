"""The types that fields of several configs have."""

import ast
import functools
import itertools
import pathlib
import sys
from collections.abc import Iterator
from typing import Annotated

import pydantic
from pydantic import AfterValidator, BeforeValidator, ConfigDict

from kdkit.settings import STRICT


class Strict(pydantic.BaseModel):
    """A config: unknown fields are errors, and nothing changes later."""

    model_config = ConfigDict(**STRICT, frozen=True)

    def replace(self, **changes) -> "Strict":
        """Returns a copy with some fields changed, checked again."""
        return type(self)(**{**dict(self), **changes})


def descriptions(kind: type) -> dict[str, str]:
    """Returns the docstring of each field of a config."""
    found = {}
    for one in reversed(kind.__mro__):
        if issubclass(one, Strict) and one is not Strict:
            found |= _documented(one.__module__).get(one.__name__, {})
    return found


@functools.cache
def _documented(module) -> dict[str, dict[str, str]]:
    """The docstrings of fields in a module, by class; read when asked for."""
    source = pathlib.Path(sys.modules[module].__file__).read_text("utf-8")
    return {
        one.name: {
            field.target.id: text.value.value
            for field, text in itertools.pairwise(one.body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(getattr(text, "value", None), ast.Constant)
            and isinstance(text, ast.Expr)
        }
        for one in ast.parse(source).body
        if isinstance(one, ast.ClassDef)
    }


def absolute(place: str) -> str:
    """Makes an existing path absolute; returns other names unchanged."""
    path = pathlib.Path(place)
    return str(path.resolve()) if path.exists() else place


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
InputFiles = Annotated[tuple[InputFile, ...], BeforeValidator(listed)]
ModelPaths = Annotated[tuple[ModelPath, ...], BeforeValidator(listed)]
Strings = Annotated[tuple[str, ...], BeforeValidator(listed)]


def inputs_of(config: Strict, path: str = "") -> Iterator[tuple]:
    """Yields the path, mark and value of each input in a config."""
    for name, field in type(config).model_fields.items():
        value, at = getattr(config, name), f"{path}{name}"
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Strict):
                yield from inputs_of(one, f"{at}.")
            elif one is not None and (mark := _mark(field)) is not None:
                yield at, mark, one


def _mark(field):
    """The `Input` in a field's type, `None` if it is no input."""
    kinds, found = [field.annotation], [*field.metadata]
    while kinds:
        kind = kinds.pop()
        found += getattr(kind, "__metadata__", ())
        kinds += getattr(kind, "__args__", ())
        kinds += [getattr(kind, "__origin__", None)] * hasattr(
            kind, "__metadata__"
        )
    return next((one for one in found if isinstance(one, Input)), None)
