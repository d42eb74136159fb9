"""Whether there can be a model in a place, found out without Keras."""

import ast
import contextlib
import difflib
import functools
import importlib.util
import logging
import os
import pathlib

from kdkit.errors import UsageError
from kdkit.io.machine import byte_size
from kdkit.io.network import require_connection
from kdkit.io.reading import read_json
from kdkit.models.recovery import HEAD_FILE

_log = logging.getLogger(__name__)

# Of runs whose models are files: where their tokenizer is.
TOKENIZER_DIRECTORY = "tokenizer"
# Directories of models in a run.
ARMS = ("student", "teacher", "encoder", "decoder", "encoder_decoder")
# Of the classes of Hugging Face checkpoints that classify texts.
SUFFIX = "ForSequenceClassification"
NO_TABLE = (AttributeError, TypeError, ValueError)  # but another statement


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
    names = preset_table()
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
def preset_table() -> dict[str, dict]:
    """Returns keras-hub's table of presets, by name.

    It is read as text, because keras-hub takes seconds to import. Empty where
    its files are arranged in another way.
    """
    package = importlib.util.find_spec("keras_hub")
    folders = () if package is None else package.submodule_search_locations
    table = {}
    for folder in folders:
        for file in pathlib.Path(folder).glob("src/models/*/*_presets.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                with contextlib.suppress(*NO_TABLE):
                    table |= ast.literal_eval(node.value)
    return table


def config_file(source) -> pathlib.Path | None:
    """Returns the `config.json` of the model in a run or a directory.

    Nothing is checked; `kdkit.models.load_encoder` does that.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.
    """
    path = pathlib.Path(source)
    files = [folder / "config.json" for folder in map(path.joinpath, ARMS)]
    found = [file for file in (*files, path / "config.json") if file.is_file()]
    return found[0] if found else None


def is_encoder_alone(source) -> bool:
    """Whether the files of a model are those of an encoder without a head.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.

    Raises:
        UsageError: (a `ValueError`) if its `config.json` is damaged.
    """
    file = config_file(source)
    if file is None:
        return False
    if any((file.parent / name).is_file() for name in ("task.json", HEAD_FILE)):
        return False
    config = read_json(file, "the config of a model")
    if "registered_name" in config:
        return True
    classes = config.get("architectures")
    return isinstance(classes, list) and not any(
        str(name).endswith(SUFFIX) for name in classes
    )


KAGGLE, HUGGING_FACE = "kaggle://", "hf://"
SERVERS = {
    KAGGLE: "https://api.kaggle.com",
    HUGGING_FACE: "https://huggingface.co",
}
# Where these are set, models come from elsewhere.
OTHER_SERVERS = ("KAGGLE_API_ENDPOINT", "KAGGLE_KERNEL_RUN_TYPE", "HF_ENDPOINT")

_announced = set()


def announce_download(source) -> None:
    """Prints what a preset's name will download, before that begins.

    Nothing is printed for a path, or for a preset that was downloaded before.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.

    Raises:
        UsageError: (a `ValueError`) if the server does not answer.
    """
    name = str(source)
    if pathlib.Path(name).exists():
        return
    preset = preset_table().get(name, {})
    handle = preset.get("kaggle_handle", name)
    folder = _folder(handle)
    if folder is None or any(map(pathlib.Path.is_file, folder.rglob("*"))):
        return
    if name not in _announced:
        _announced.add(name)
        params = preset.get("metadata", {}).get("params")
        size = f", about {byte_size(4 * params)}" if params else ""
        _log.info(f"Downloading {name} from {handle} to {folder}{size}.")
    server = SERVERS[handle[: handle.index("://") + 3]]
    if not any(variable in os.environ for variable in OTHER_SERVERS):
        require_connection(
            [server],
            f"The preset {name!r}",
            "Pass the directory of a checkpoint that is on this machine.",
        )


def _folder(handle):
    """Where the files of a handle are cached; `None` for other handles."""
    cache = pathlib.Path.home() / ".cache"
    if handle.startswith(KAGGLE):
        root = os.environ.get("KAGGLEHUB_CACHE", cache / "kagglehub")
        return pathlib.Path(root, "models", handle.removeprefix(KAGGLE))
    if handle.startswith(HUGGING_FACE):
        home = os.environ.get("HF_HOME", cache / "huggingface")
        root = os.environ.get("HF_HUB_CACHE", pathlib.Path(home, "hub"))
        name = handle.removeprefix(HUGGING_FACE).replace("/", "--")
        return pathlib.Path(root, f"models--{name}")
    return None
