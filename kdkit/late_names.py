"""Packages whose names are imported when they are first used."""

import importlib
from collections.abc import Callable, Mapping


def late_names(
    package: str, defined_in: Mapping[str, str]
) -> tuple[Callable, Callable]:
    """Returns `__getattr__` and `__dir__` of a package (PEP 562)."""

    def find(name):
        if name not in defined_in:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        module = importlib.import_module(f"{package}.{defined_in[name]}")
        return getattr(module, name)

    def names():
        return list(defined_in)

    return find, names
