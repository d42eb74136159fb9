"""Classifier heads of Hugging Face checkpoints.

`kdkit.models.backbones` reads the encoder of such a checkpoint.
"""

import pathlib
import warnings
from collections.abc import Mapping

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.families import family_of
from kdkit.models.hugging_face_weights import Tensors
from kdkit.models.places import SUFFIX
from kdkit.reading import read_json

# In the names of classes whose heads, of the same names, answer something else.
HAS_HEAD = "For"
PARTS = ("weight", "bias")  # of a dense layer


def copy_sequence_head(
    path: pathlib.Path, model, class_names: tuple[str, ...] | None
) -> int | None:
    """Copies the head of a checkpoint into a classifier of its encoder.

    Args:
        path: `pathlib.Path` of the checkpoint's directory, whose files were
            checked.
        model: a keras-hub `TextClassifier` on the checkpoint's encoder.
        class_names: tuple of strings, what the model's logits stand for, or
            `None` where that is not known.

    Returns:
        How many classes the checkpoint's head is for, `None` without one. If
        the model's are as many, it has the head now; otherwise it stays as it
        is.

    Raises:
        UsageError: (a `ValueError`) as `read_sequence_head`, and if a layer
            of the head has another width than the encoder.
    """
    form = family_of(model.backbone).checkpoints
    if form is None:
        return None
    names = form.classifier
    head = read_sequence_head(path, names, class_names)
    if head is None:
        return None
    *_, (_, bias) = head.values()
    if len(bias) != model.output_shape[-1]:
        return len(bias)
    for layer, (kernel, _) in head.items():
        expected = model.get_layer(layer).kernel.shape
        if kernel.shape != expected:
            raise UsageError(
                f"{path}: expected {names[layer]}.weight of shape "
                f"{expected[::-1]}. Received: {kernel.shape[::-1]}. Restore "
                "the checkpoint from a copy."
            )
    for layer, weights in head.items():
        model.get_layer(layer).set_weights(weights)
    return len(bias)


def read_sequence_head(
    path: pathlib.Path,
    names: Mapping[str, str],
    class_names: tuple[str, ...] | None = None,
) -> dict | None:
    """Reads the dense layers of a checkpoint's head.

    Where the checkpoint names its classes (`id2label`) as the task does, up to
    capitals, spaces and hyphens, but in another order, its logits are put into
    the task's order.

    Args:
        path: `pathlib.Path` of the checkpoint's directory.
        names: dict from a layer to what the checkpoint calls it; the last one
            gives the logits.
        class_names: tuple of strings, or `None` where they are not known.
            Defaults to `None`.

    Returns:
        Dict from layer to its kernel of shape `(inputs, outputs)` and bias of
        shape `(outputs,)`, float32, the one of the logits last; or `None`
        where the checkpoint is no classifier. Where `architectures` in
        `config.json` names no class with a head, the head's tensors decide,
        as in transformers.

    Raises:
        UsageError: (a `ValueError`) if a tensor is missing, damaged or of
            another shape.
    """
    config = read_json(path / "config.json", "the config of a model")
    if "registered_name" in config:  # a preset's, of an encoder alone
        return None
    architectures = config.get("architectures")
    if not isinstance(architectures, list):
        architectures = []
    classes = [str(name) for name in architectures]
    is_classifier = any(name.endswith(SUFFIX) for name in classes)
    if not is_classifier and any(HAS_HEAD in name for name in classes):
        return None
    tensors = _read(
        path,
        [f"{name}.{part}" for name in names.values() for part in PARTS],
        is_classifier,
    )
    if tensors is None:
        if not classes:
            warnings.warn(
                f"{path / 'config.json'} names no class in 'architectures', "
                "and the weights have no head for sequence classification. "
                "The classifier's head is new, with random weights: fine-tune "
                "it before you use its logits.",
                stacklevel=2,
            )
        return None
    head = {}
    for layer, name in names.items():
        weight, bias = (tensors[f"{name}.{part}"] for part in PARTS)
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise UsageError(
                f"{path}: expected {name}.weight of two axes and a bias for "
                f"each of its rows. Received: {weight.shape} and {bias.shape}. "
                "Restore the checkpoint from a copy."
            )
        head[layer] = [weight.T, bias]
    kernel, bias = head[layer]
    order = None
    if class_names is not None and len(class_names) == len(bias):
        order = _order(config.get("id2label"), class_names)
    if order is not None:
        head[layer] = [kernel[:, order], bias[order]]
    return head


def _read(path, names, is_classifier):
    """The tensors of these names, in float32; `None` without a head."""
    with Tensors(path) as tensors:
        missing = [name for name in names if name not in tensors]
        if missing and not is_classifier:
            return None
        if missing:
            raise UsageError(
                f"{path} is said to be a classifier, and its weights lack "
                f"{', '.join(missing)}. Restore the checkpoint from a copy, or "
                f"take the class that ends with {SUFFIX} out of "
                "'architectures' in config.json to use the encoder alone."
            )
        return {name: tensors.read(name) for name in names}


def _order(id2label, class_names):
    """The checkpoint's numbers of the task's classes, where names tell them."""
    if not isinstance(id2label, dict):
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
