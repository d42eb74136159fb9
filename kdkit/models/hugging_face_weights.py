"""Reads the weights of Hugging Face checkpoints; tensor names are data.

keras-hub's converters expect one name for each tensor. Checkpoints use several:
with or without the base model's prefix, `gamma` and `beta` or `weight` and
`bias`, in one file or in several.

`kdkit.models.backbones` loads the encoder of such a checkpoint.
"""

import contextlib
import math
import pathlib
import re
import warnings
from collections.abc import Mapping

import keras
import numpy as np
import safetensors.numpy

from kdkit.errors import UsageError
from kdkit.io.reading import read_json
from kdkit.models.families import HEAD_CLASSES, WeightLayout, family_of
from kdkit.models.heads import backbone_of, find_head

WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")

OLD_LEAVES = {".gamma": ".weight", ".beta": ".bias"}
LEAVES = {
    "embeddings": "weight",
    "kernel": "weight",
    "gamma": "weight",
    "bias": "bias",
    "beta": "bias",
}
# In the order of a joined tensor.
THIRDS = ("query", "key", "value")
POOLER = "pooled_dense"


def write_tensors(path: pathlib.Path, tensors: dict) -> None:
    """Writes a safetensors file with the mode of any other new file."""
    path.touch()
    mode = path.stat().st_mode
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(mode)


class Tensors(contextlib.ExitStack):
    """A checkpoint's tensors by name, read one at a time."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.path = path
        self._places = {}
        files = [WEIGHTS]
        # If both exist, transformers reads the single file first.
        if not (path / WEIGHTS).is_file() and (path / SHARDS).is_file():
            what = "a list of files of weights"
            shards = read_json(path / SHARDS, what)
            files = sorted({*shards["weight_map"].values()})
        for file in files:
            opened = self.enter_context(
                safetensors.safe_open(path / file, framework="np")
            )
            for name in opened.keys():  # noqa: SIM118
                self._places[_today(name)] = (opened, name)

    @property
    def names(self):
        return self._places.keys()

    def __contains__(self, name):
        return name in self._places

    def integers(self, name: str) -> np.ndarray:
        """Returns a tensor of whole numbers."""
        opened, stored_name = self._places[name]
        return opened.get_tensor(stored_name)

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor in float32."""
        opened, stored_name = self._places[name]
        kind = opened.get_slice(stored_name).get_dtype()
        if kind not in FLOATS:
            raise UsageError(
                f"{self.path}: {stored_name} is of type {kind}. Expected one "
                f"of {', '.join(FLOATS)}."
            )
        return np.asarray(opened.get_tensor(stored_name), "float32")

    def base_prefix(self, layout: WeightLayout) -> str:
        """Returns the prefix of the base model's names."""
        table = f"{layout.parts['token_embedding']}.weight"
        found = [
            name.removesuffix(table)
            for name in self.names
            if name == table or name.endswith(f".{table}")
        ]
        if len(found) != 1:
            raise UsageError(
                f"The weights in {self.path} contain {len(found)} models. "
                f"Expected one tensor {table}."
            )
        return found[0]


def load_weights(backbone, config, tensors: Tensors) -> bool:
    """Assigns a checkpoint's weights to a backbone."""
    layout = config.family.checkpoints.weights
    prefix = tensors.base_prefix(layout)
    names = {
        variable.path: prefix + tensor_name(layout, variable.path)
        for variable in backbone.weights
    }
    poolers = [path for path in names if path.startswith(f"{POOLER}/")]
    lacks_pooler = bool(poolers) and not any(
        names[path] in tensors for path in poolers
    )
    if lacks_pooler:
        for path in poolers:
            del names[path]
    _require_all_read(layout, prefix, names, tensors)
    for variable in backbone.weights:
        if variable.path in names:
            variable.assign(
                _value(variable, names[variable.path], layout, config, tensors)
            )
    if config.family.checkpoints.has_one_segment:
        row = tensors.read(f"{prefix}embeddings.token_type_embeddings.weight")
        positions = backbone.embeddings.position_embedding.position_embeddings
        positions.assign(keras.ops.convert_to_numpy(positions) + row[0])
    return lacks_pooler


def dense_kernel(weight, variable):
    """Returns a linear layer's weight in the shape of a Keras kernel."""
    shape = tuple(variable.shape)
    num_inputs = (
        shape[:-1] if "attention_output" in variable.path else shape[:1]
    )
    expected = (math.prod(num_inputs), math.prod(shape[len(num_inputs) :]))
    if weight.shape != expected:
        raise UsageError(
            f"{variable.path} has weights of another shape. Expected "
            f"{expected}. Received: {weight.shape}."
        )
    return weight.reshape(shape)


def tensor_name(layout, path: str) -> str:
    """Returns the name in a checkpoint for a backbone's variable."""
    layer, leaf = path.rsplit("/", 1)
    leaf = LEAVES[leaf]
    block = re.match(layout.block_path, path)
    if block is None:
        return f"{layout.parts[layer.rsplit('/', 1)[-1]]}.{leaf}"
    part = layout.block_parts[layer[block.end() :]]
    return f"{block.expand(layout.block)}{part}.{leaf}"


def _value(variable, name, layout, config, tensors):
    value = tensors.read(name)
    shape = tuple(variable.shape)
    path = variable.path
    if "position_embedding" in path:
        value = value[config.num_skipped_positions :]
    if "segment_embedding" in path and (
        len(value) == 1 or config.reads_one_segment
    ):
        value = np.repeat(value[:1], shape[0], axis=0)
    layer = path.split("/")[-2]
    is_joined = layout.joined is not None and layout.joined in name
    if is_joined and layer in THIRDS:
        value = np.split(value, 3, axis=-1)[THIRDS.index(layer)]
    if path.endswith("/kernel"):
        value = value.T if layout.is_transposed else value
        value = dense_kernel(value, variable)
    elif path.endswith("/bias"):
        value = value.reshape(shape)
    return value


def _require_all_read(layout, prefix, names, tensors):
    """Raises an error for weights of blocks that keras-hub does not have."""
    read = set(names.values())
    blocks = set()
    for path in names:
        block = re.match(layout.block_path, path)
        if block is not None:
            blocks.add(prefix + block.expand(layout.block))
    for name in sorted(tensors.names):
        if (
            name not in read
            and name.startswith(tuple(blocks))
            and not re.search(layout.ignored, name)
        ):
            raise UsageError(
                f"The weights in {tensors.path} contain {name}, which "
                "keras-hub's model does not have."
            )


def _today(name):
    """Returns the current name of a tensor in transformers."""
    for old, new in OLD_LEAVES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


# Part of the names of classes whose heads serve other tasks.
HAS_HEAD = "For"
PARTS = ("weight", "bias")  # of a dense layer


def copy_head(
    path: pathlib.Path,
    model,
    kind: str,
    class_names: tuple[str, ...] | None = None,
) -> int | None:
    """Copies a checkpoint's head into a classifier on its encoder."""
    form = family_of(backbone_of(model)).checkpoints
    names = form and form.head_layers(kind)
    if not names:
        return None
    head = read_head(path, names, kind, class_names)
    if head is None:
        return None
    layers = head_layers(model, names)
    *_, (_, bias) = head.values()
    *_, last = layers.values()
    if len(bias) != last.units:
        return len(bias)
    for layer, weights in head.items():
        layers[layer].set_weights(weights)
    return model.output_shape[-1]


def head_layers(model, names) -> dict:
    """Returns the dense layers in a classifier's head, by name."""
    head_model = find_head(model) or model
    return {name: head_model.get_layer(name) for name in names}


def read_head(
    path: pathlib.Path,
    names: Mapping[str, str],
    kind: str = "sequence",
    class_names: tuple[str, ...] | None = None,
) -> dict | None:
    """Reads the dense layers of a checkpoint's head."""
    config = read_json(path / "config.json", "the config of a model")
    if "registered_name" in config:  # a preset with only an encoder
        return None
    classes = config.get("architectures") or []
    suffix = HEAD_CLASSES[kind]
    is_classifier = any(name.endswith(suffix) for name in classes)
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
                f"and the weights have no head for {suffix}. "
                "The classifier gets a new head with random weights. Fine-tune "
                "it before you use its logits.",
                stacklevel=2,
            )
        return None
    head = {}
    for layer, name in names.items():
        weight, bias = (tensors[f"{name}.{part}"] for part in PARTS)
        head[layer] = [weight.T, bias]
    kernel, bias = head[layer]
    order = None
    if class_names is not None and len(class_names) == len(bias):
        order = _order(config.get("id2label"), class_names)
    if order is not None:
        head[layer] = [kernel[:, order], bias[order]]
    return head


def _read(path, names, is_classifier):
    """Reads tensors by name, in float32; returns `None` without a head."""
    with Tensors(path) as tensors:
        if not is_classifier and not set(names) <= tensors.names:
            return None
        return {name: tensors.read(name) for name in names}


def _order(id2label, class_names):
    """Returns the checkpoint's numbers of the task's classes, by name."""
    if id2label is None:
        return None
    numbers = {_plain(name): number for number, name in id2label.items()}
    if len(numbers) < len(id2label):  # names that differ in case alone
        return None
    try:
        return [int(numbers[_plain(name)]) for name in class_names]
    except KeyError:
        return None


def _plain(name):
    return str(name).casefold().replace("-", "_").replace(" ", "_")
