"""An extension of griffe, which reads the source for mkdocstrings.

- A package with `kdkit.late_names` has no import statements for its names. Each
  of them gets an alias, so that `kdkit.Distiller` is documented under its
  public name.
- Docstrings may describe several arguments in one entry (`rows, seed: as in
  ...`) and show examples in their text (`>>> ...`).
"""

import pathlib
import re

import griffe
from reference import late_names, one_entry_each


def fenced_examples(docstring: str) -> str:
    """Returns a docstring whose doctests are blocks of code in Markdown."""
    return re.sub(r"(?m)^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", docstring)


class SourceReader(griffe.Extension):
    """Adds aliases for late names, and adapts docstrings."""

    def on_module_members(self, *, mod, **kwargs):
        """Adds the aliases, where griffe has read a package."""
        if not mod.is_init_module:
            return
        source = pathlib.Path(mod.filepath).read_text(encoding="utf-8")
        for name, module in late_names(source).items():
            if "." not in module:
                module = f"{mod.path}.{module}"
            if name not in mod.members:
                mod.set_member(name, griffe.Alias(name, f"{module}.{name}"))

    def on_object(self, *, obj, **kwargs):
        """Adapts a docstring, where griffe has read an object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced_examples(
                one_entry_each(obj.docstring.value)
            )
