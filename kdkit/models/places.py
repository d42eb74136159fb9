"""Whether there can be a model in a place, found out without Keras."""

import difflib
import functools
import importlib.util
import pathlib
import re

from kdkit.errors import UsageError

# Of runs whose models are files: where their tokenizer is.
TOKENIZER_DIRECTORY = "tokenizer"
# A name in the tables of keras-hub's presets.
_NAME = re.compile(r'^    "([\w.-]+)": \{$', re.MULTILINE)


def check_place(source) -> None:
    """Refuses the place of a model that is no path and no preset.

    `kdkit.models.load_classifier` refuses it, too. This takes milliseconds.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.

    Raises:
        UsageError: (a `ValueError`) if nothing is there and keras-hub has no
            preset of this name.
    """
    name = str(source)
    if "://" in name or pathlib.Path(name).exists():
        return
    names = preset_names()
    if name in names or not names:
        return
    similar = difflib.get_close_matches(name, names, n=1)
    advice = f" Did you mean {similar[0]!r}?" if similar else ""
    raise UsageError(
        f"No model {name!r}: there is no such file or directory, and keras-hub "
        f"has no preset of this name.{advice} Expected a run, a preset "
        "directory, a Hugging Face checkpoint directory, a .keras file, or the "
        "name of a preset such as 'bert_base_en_uncased'."
    )


@functools.cache
def preset_names() -> tuple[str, ...]:
    """Returns the names in keras-hub's tables of presets.

    They are read as text, because keras-hub takes seconds to import. Empty
    where its files are arranged in another way.
    """
    package = importlib.util.find_spec("keras_hub")
    if package is None:
        return ()
    return tuple(
        name
        for folder in package.submodule_search_locations
        for file in pathlib.Path(folder).glob("src/models/*/*_presets.py")
        for name in _NAME.findall(file.read_text(encoding="utf-8"))
    )
