"""Classifier heads of Hugging Face checkpoints.

keras-hub converts the encoder of such a checkpoint and leaves its head out.
"""

import pathlib

import numpy as np
import safetensors

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.families import family_of
from kdkit.reading import read_json

SUFFIX = "ForSequenceClassification"  # of the classes that have such a head
WEIGHTS = "model.safetensors"
PARTS = ("weight", "bias")  # of a dense layer
SHARDS = "model.safetensors.index.json"


def copy_sequence_head(
    path: pathlib.Path, model, class_names: tuple[str, ...] | None
) -> bool:
    """Copies the head of a checkpoint into a classifier of its encoder.

    Where the checkpoint names its classes (`id2label`) as the task does, up to
    capitals, spaces and hyphens, but in another order, its logits are put into
    the task's order.

    Args:
        path: `pathlib.Path` of the checkpoint's directory, whose files were
            checked.
        model: a keras-hub `TextClassifier` on the checkpoint's encoder.
        class_names: tuple of strings, what the model's logits stand for, or
            `None` where that is not known.

    Returns:
        Whether there is a head for as many classes; without one the model
        stays as it is.

    Raises:
        UsageError: (a `ValueError`) if a tensor of the head is missing or has
            another shape than the layer it belongs to.
    """
    config = read_json(path / "config.json", "the config of a model")
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not any(
        str(name).endswith(SUFFIX) for name in architectures
    ):
        return False
    layers = family_of(model.backbone).hugging_face_head
    tensors = _read(
        path,
        [f"{name}.{part}" for name in layers.values() for part in PARTS],
    )
    heads = {
        layer: [tensors[f"{name}.{part}"] for part in PARTS]
        for layer, name in layers.items()
    }
    if len(heads["logits"][1]) != model.output_shape[-1]:
        return False
    order = _order(config.get("id2label"), class_names)
    if order is not None:
        heads["logits"] = [tensor[order] for tensor in heads["logits"]]
    for layer, (weight, bias) in heads.items():
        kernel, _ = model.get_layer(layer).get_weights()
        if weight.T.shape != kernel.shape or bias.shape != kernel.shape[1:]:
            raise UsageError(
                f"{path}: expected {layers[layer]}.weight of shape "
                f"{kernel.T.shape} and a bias for each of its rows. Received: "
                f"{weight.shape} and {bias.shape}. Restore the checkpoint "
                "from a copy."
            )
    for layer, (weight, bias) in heads.items():
        model.get_layer(layer).set_weights([weight.T, bias])
    return True


def _read(path, names):
    """The tensors of these names, in float32."""
    places = dict.fromkeys(names, WEIGHTS)
    if (path / SHARDS).is_file():
        index = read_json(path / SHARDS, "a list of files of weights")
        places |= {
            name: file
            for name, file in index["weight_map"].items()
            if name in places
        }
    tensors, missing = {}, []
    for file in sorted(set(places.values())):
        with safetensors.safe_open(path / file, framework="np") as opened:
            there = set(opened.keys())
            for name in names:
                if places[name] != file:
                    continue
                if name not in there:
                    missing.append(name)
                    continue
                tensors[name] = np.asarray(opened.get_tensor(name), "float32")
    if missing:
        raise UsageError(
            f"{path} is said to be a classifier, and its weights lack "
            f"{', '.join(missing)}. Restore the checkpoint from a copy, or "
            f"take the class that ends with {SUFFIX} out of 'architectures' "
            "in config.json to use the encoder alone."
        )
    return tensors


def _order(id2label, class_names):
    """The checkpoint's numbers of the task's classes, where names tell them."""
    if class_names is None or not isinstance(id2label, dict):
        return None
    numbers = {_plain(name): number for number, name in id2label.items()}
    try:
        order = [int(numbers[_plain(name)]) for name in class_names]
    except (KeyError, ValueError):
        return None
    if sorted(order) != list(range(len(class_names))):
        raise UsageError(
            "Expected 'id2label' in the checkpoint's config.json to number "
            f"its classes from 0. Received: {shortened(id2label)}."
        )
    return order


def _plain(name):
    return str(name).casefold().replace("-", "_").replace(" ", "_")
