"""Presets that are yet to be downloaded: what, from where and to where."""

import os
import pathlib

from kdkit.models.places import preset_table
from kdkit.network import require_connection
from kdkit.quantities import byte_size

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
        print(
            f"Downloading {name} from {handle} to {folder}{size}.", flush=True
        )
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
