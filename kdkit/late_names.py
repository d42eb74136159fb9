"""Packages whose names are imported when they are first used."""

import importlib
from collections.abc import Callable
from collections.abc import Mapping


def late_names(
    package: str, defined_in: Mapping[str, str]
) -> tuple[Callable, Callable]:
    """Returns `__getattr__` and `__dir__` of a package (PEP 562).

    Settings and paths are checked before Keras is imported. Without this, a
    package whose modules define layers would import Keras for a constant.

    Args:
        package: string. The package's `__name__`.
        defined_in: dict from each name to the module in the package that
            defines it, or to the full name of another module. A module must not
            have the name of what it defines: an imported module would hide it.

    Returns:
        Tuple of two functions.
    """

    def find(name):
        if name not in defined_in:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        module = defined_in[name]
        if "." not in module:
            module = f"{package}.{module}"
        return getattr(importlib.import_module(module), name)

    def names():
        return list(defined_in)

    return find, names
