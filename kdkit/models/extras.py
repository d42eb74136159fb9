"""`kdkit.json`: settings of a preset that keras-hub's classes cannot express.

keras-hub reads a preset without this file, and some results then differ: the
preset's README states which. kdkit's loader applies the file.
"""

import json
import pathlib

from kdkit.files import write_text
from kdkit.reading import read_json

EXTRAS_FILE = "kdkit.json"
CONFIGS_OF_TASKS = ("preprocessor.json", "task.json")


def save_extras(directory, **entries) -> None:
    """Writes entries into the `kdkit.json` of a preset directory.

    Entries that the file has under other names stay.

    Args:
        directory: path of the preset.
        entries: JSON values by name. An entry that is `None` is removed.
    """
    file = pathlib.Path(directory) / EXTRAS_FILE
    merged = {**load_extras(directory), **entries}
    merged = {key: entry for key, entry in merged.items() if entry is not None}
    if merged:
        write_text(file, f"{json.dumps(merged, indent=1)}\n")
    else:
        file.unlink(missing_ok=True)


def load_extras(directory) -> dict:
    """Returns the entries in the `kdkit.json` of a directory, if there is one.

    Args:
        directory: path of a preset or of a saved tokenizer.

    Raises:
        UsageError: (a `ValueError`) if the file is not a JSON object.
    """
    file = pathlib.Path(directory) / EXTRAS_FILE
    if not file.is_file():
        return {}
    return read_json(file, "the settings that kdkit adds to a preset")


def replace_entries(directory, argument: str, entry: dict) -> None:
    """Replaces serialized objects in the configs of a preset.

    Args:
        directory: path of the preset directory.
        argument: string. The objects whose configs have this argument are
            replaced.
        entry: dict. What Keras serializes of the object in their place.
    """
    for name in CONFIGS_OF_TASKS:
        file = pathlib.Path(directory) / name
        if file.is_file():
            config = read_json(file, "the config of a preset")
            config = _replaced(config, argument, entry)
            write_text(file, json.dumps(config, indent=4))


def _replaced(config, argument, entry):
    if isinstance(config, list):
        return [_replaced(one, argument, entry) for one in config]
    if not isinstance(config, dict):
        return config
    if argument in (config.get("config") or ()):
        return entry
    return {
        name: _replaced(one, argument, entry) for name, one in config.items()
    }
