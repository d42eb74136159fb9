"""Errors for directories whose model is elsewhere or in another format."""

import pathlib
import re

from kdkit.errors import UsageError
from kdkit.io.reading import read_json
from kdkit.models.hugging_face_config import is_convertible
from kdkit.models.hugging_face_weights import SHARDS, WEIGHTS

CHECKPOINT = re.compile(
    r"checkpoint-(\d+)"
)  # the name in transformers' Trainer
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.*"
HUB_NAME = re.compile(r"models--(.+?)--(.+)")
LFS = b"version https://git-lfs"
# Patterns of unsupported weight files, with the framework that writes them.
OTHER_WEIGHTS = {
    "pytorch_model*.bin": "PyTorch's",
    "pytorch_model.bin.index.json": "PyTorch's",
    "*.pt": "PyTorch's",
    "*.pth": "PyTorch's",
    "tf_model*.h5": "TensorFlow's",
    "*.ckpt.index": "TensorFlow's",
    "flax_model*.msgpack": "Flax's",
    "*.onnx": "ONNX's",
    "onnx/*.onnx": "ONNX's",
    "openvino_model.xml": "OpenVINO's",
    "*.gguf": "llama.cpp's",
    "model.*.safetensors": "a variant of it",
}
CONVERTIBLE = ("PyTorch's",)  # the only one that current transformers reads


def require_model_directory(path: pathlib.Path) -> None:
    """Raises an error if the model is in a directory below this one."""
    if (path / "config.json").is_file():
        return
    if (path / ADAPTER).is_file():
        raise UsageError(_adapter(path))
    inside = [
        _newest_checkpoint(path),
        _snapshot(path),
        *(item for item in path.glob("*_Transformer")),
    ]
    for found in inside:
        if found is not None and (found / "config.json").is_file():
            raise UsageError(
                f"{path} contains no model itself. Received: the directory "
                f"above the model in {found}. Use {found}."
            )
    hub = [item for item in path.iterdir() if HUB_NAME.fullmatch(item.name)]
    models = [found for found in map(_snapshot, sorted(hub)) if found]
    if models:
        raise UsageError(
            f"{path} is the cache of the Hugging Face Hub, with "
            f"{len(models)} models. Expected one of them. Use for example "
            f"{models[0]}."
        )


def require_weights(path: pathlib.Path) -> None:
    """Raises an error for a Hugging Face checkpoint without usable weights."""
    config = read_json(path / "config.json", "the config of a model")
    if not is_convertible(config):
        return
    weights = path / WEIGHTS
    # transformers applies an adapter to any weights that are next to it.
    if (path / ADAPTER).is_file() and any(path.glob(ADAPTER_WEIGHTS)):
        raise UsageError(_adapter(path))
    if weights.is_file():
        with weights.open("rb") as file:
            if file.read(len(LFS)) == LFS:
                raise UsageError(
                    f"{weights} is a pointer of Git LFS, not the weights. "
                    "Expected the file that it points to. Run git lfs pull in "
                    f"{path}."
                )
        return
    if (path / SHARDS).is_file():
        return
    if (path / ADAPTER).is_file():
        raise UsageError(_adapter(path))
    if weights.is_symlink():
        raise UsageError(
            f"{weights} is a link to a file that does not exist. Expected the "
            "weights. Download the model again."
        )
    for pattern, maker in OTHER_WEIGHTS.items():
        found = sorted(path.glob(pattern))
        if found:
            raise UsageError(_other_weights(path, found[0], maker))
    raise UsageError(
        f"{path} has a config.json and no weights. Expected {WEIGHTS}. "
        "Received a directory with: "
        f"{sorted(item.name for item in path.iterdir())}. Download the weights "
        "too, or restore them from a copy."
    )


def _adapter(path):
    base = ""
    if (path / ADAPTER).is_file():
        config = read_json(path / ADAPTER, "the config of an adapter")
        base = config.get("base_model_name_or_path") or ""
    base_name = f" for {base!r}" if isinstance(base, str) and base else ""
    return (
        f"{path} contains an adapter{base_name}, which is not a model. "
        "Expected the model with the adapter merged into its weights. Save it "
        "in Python, with its tokenizer: "
        "model = peft.AutoPeftModelForSequenceClassification.from_pretrained("
        f"{str(path)!r}); model.merge_and_unload().save_pretrained(DIRECTORY). "
        "If the adapter is already merged into model.safetensors, remove the "
        "adapter's files."
    )


def _other_weights(path, file, maker):
    what = (
        f"{path} has no {WEIGHTS}. Received: {file.relative_to(path)}, which "
        f"is {maker}"
    )
    if maker in CONVERTIBLE:
        return (
            f"{what}; kdkit does not open pickles, because these can run code. "
            "If you trust the file, convert it with transformers: "
            f"AutoModel.from_pretrained({str(path)!r})"
            ".save_pretrained(DIRECTORY). To convert a head too, use the class "
            "in its 'architectures' instead of AutoModel."
        )
    return (
        f"{what}. Use the same model's {WEIGHTS}, which most models on the "
        "Hugging Face Hub have."
    )


def _newest_checkpoint(path):
    """Returns the checkpoint of the latest step, or `None`."""
    steps = {}
    for item in path.iterdir():
        match = CHECKPOINT.fullmatch(item.name)
        if match and item.is_dir():
            steps[int(match.group(1))] = item
    return steps[max(steps)] if steps else None


def _snapshot(path):
    """Returns the main snapshot in a folder of the Hub's cache, or another."""
    snapshots = path / "snapshots"
    if not snapshots.is_dir():
        return None
    main = path / "refs" / "main"
    if main.is_file() and main.stat().st_size < 100:
        name = main.read_text(encoding="utf-8", errors="replace").strip()
        if name and (snapshots / pathlib.PurePath(name).name).is_dir():
            return snapshots / pathlib.PurePath(name).name
    found = sorted(item for item in snapshots.iterdir() if item.is_dir())
    return found[-1] if found else None
