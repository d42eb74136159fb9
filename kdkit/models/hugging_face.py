"""Reads Hugging Face checkpoints: `config.json` and tensors, by tables.

Each field of `config.json` is followed, rejected by name, or does not change
outputs. The last kind are dropout rates of attention and heads (keras-hub has
one rate for all), initializers, caches, labels, and token ids that the
tokenizer decides. Unknown fields are ignored, as in transformers. A missing
field has transformers' default.

keras-hub's converters expect one name for each tensor. Checkpoints use several:
with or without the base model's prefix, `gamma` and `beta` or `weight` and
`bias`, in one file or in several.
"""

import contextlib
import dataclasses
import math
import pathlib
import re
import warnings

import keras
import numpy as np
import safetensors.numpy

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import read_json
from kdkit.models.families import (
    ALL_FAMILIES,
    HEAD_CLASSES,
    BlockSettings,
    Family,
    WeightLayout,
)
from kdkit.models.heads import Head, find_head
from kdkit.models.places import CONFIG, Place
from kdkit.models.variants import build

WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
FLOATS = ("F64", "F32", "F16", "BF16")
# Fields with only one supported value.
REQUIRED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "position_embedding_type": "absolute",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "quantization_config": None,
    "pruned_heads": None,
    "per_layer_config": None,
    "use_sliding_window": False,
    "attention_bias": False,
    "rope_scaling": None,
    "rope_type": "default",
}
# The supported ones, by Hugging Face's names. The values are Keras' names,
# except for "gelu_new". The tanh forms of GELU differ only by rounding.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python_tanh": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "relu6": "relu6",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "linear": "linear",
    "mish": "mish",
}
OLD_LEAVES = {".gamma": ".weight", ".beta": ".bias"}
LEAVES = {
    "embeddings": "weight",
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "bias": "bias",
    "beta": "bias",
}
# In the order of a joined tensor.
THIRDS = ("query", "key", "value")
POOLER = "pooled_dense"
OUTPUT_TABLE = "reverse_embeddings"
LOGITS = "logits"  # the last layer of each head
# Part of the names of classes whose heads serve other tasks.
HAS_HEAD = "For"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's model, described with keras-hub's arguments."""

    family: Family
    sizes: dict
    blocks: BlockSettings
    head: BlockSettings
    num_skipped_positions: int = 0
    reads_one_segment: bool = False

    def build(self):
        """Returns the backbone with random weights."""
        own = self.family.block_settings
        return build(self.family.backbone, own, self.blocks, **self.sizes)


def is_hugging_face(config: dict) -> bool:
    """Whether a `config.json` belongs to a Hugging Face checkpoint."""
    return "registered_name" not in config and "model_type" in config


def checkpoint_family(config: dict) -> Family | None:
    """Returns the family of a checkpoint, `None` for what is no checkpoint."""
    if not is_hugging_face(config):
        return None
    known = {
        family.checkpoints.model_type: family
        for family in ALL_FAMILIES.values()
        if family.checkpoints
    }
    if config["model_type"] not in known:
        raise unknown("model_type of a checkpoint", config["model_type"], known)
    return known[config["model_type"]]


def read_checkpoint(place: Place) -> Checkpoint:
    """Reads the fields of a checkpoint's `config.json`."""
    config, where = place.config, place.path / CONFIG
    family = checkpoint_family(config)
    form = family.checkpoints
    config = {**config, **(config.get("rope_parameters") or {})}
    for name, expected in REQUIRED.items():
        value = config.get(name)
        if name == "is_decoder" and family.is_decoder:
            continue
        if value not in (None, {}, expected):
            raise UsageError(
                f"{where}: {name!r} is {value!r}. Expected {expected!r}, which "
                "keras-hub's model computes."
            )
    sizes = {}
    for size, (names, default) in form.sizes.items():
        found = [config[name] for name in names if name in config]
        sizes[size] = found[0] if found else default
    if sizes["intermediate_dim"] is None:
        sizes["intermediate_dim"] = 4 * sizes["hidden_dim"]
    skipped = 0
    if form.positions_follow_padding:
        skipped = config.get("pad_token_id", 1) + 1
        sizes["max_sequence_length"] -= skipped
    if "num_segments" in sizes:
        # Pairs need two segments; the second row is a copy of the only one.
        sizes["num_segments"] = max(sizes["num_segments"], 2)
    sizes["dropout"] = float(config.get(*form.dropout))
    name = config.get(*form.activation)
    if name not in ACTIVATIONS:
        raise unknown(form.activation[0], name, ACTIVATIONS)
    epsilon = float(config.get(*form.epsilon))
    return Checkpoint(
        family,
        sizes,
        BlockSettings(ACTIVATIONS[name], epsilon),
        BlockSettings(form.masked_lm_activation or ACTIVATIONS[name], epsilon),
        skipped,
    )


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


def _today(name):
    """Returns the current name of a tensor in transformers."""
    for old, new in OLD_LEAVES.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def write_tensors(
    path: pathlib.Path, tensors: dict, metadata: dict | None = None
) -> None:
    """Writes a safetensors file with the mode of any other new file."""
    path.touch()
    mode = path.stat().st_mode
    # safetensors would write other values for transposed and strided arrays.
    tensors = {
        name: np.asarray(tensor, order="C") for name, tensor in tensors.items()
    }
    metadata = metadata or {"format": "pt"}
    safetensors.numpy.save_file(tensors, path, metadata=metadata)
    path.chmod(mode)


def load_weights(backbone, checkpoint: Checkpoint, tensors: Tensors) -> bool:
    """Assigns a checkpoint's weights; returns whether it lacks a pooler."""
    form = checkpoint.family.checkpoints
    prefix = tensors.base_prefix(form.weights)
    names = tensor_names(backbone, form, prefix)
    poolers = {path for path in names if path.startswith(f"{POOLER}/")}
    lacks_pooler = bool(poolers) and not any(
        names[path] in tensors for path in poolers
    )
    if lacks_pooler:
        names = {path: names[path] for path in names.keys() - poolers}
    _require_all_read(form.weights, prefix, names, tensors)
    for variable in backbone.weights:
        if variable.path in names:
            value = tensors.read(names[variable.path])
            value = _value(variable, value, names[variable.path], checkpoint)
            variable.assign(value)
    if form.has_one_segment:
        row = tensors.read(f"{prefix}embeddings.token_type_embeddings.weight")
        positions = backbone.embeddings.position_embedding.position_embeddings
        positions.assign(keras.ops.convert_to_numpy(positions) + row[0])
    return lacks_pooler


def tensor_names(backbone, form, prefix: str) -> dict[str, str]:
    """Returns the names in a checkpoint by the paths of variables."""
    return {
        path: form.tied_logits
        if path.endswith(OUTPUT_TABLE)
        else prefix + _tensor_name(form.weights, path)
        for path in (variable.path for variable in backbone.weights)
    }


def _tensor_name(layout, path):
    layer, leaf = path.rsplit("/", 1)
    leaf = LEAVES[leaf]
    block = re.match(layout.block_path, path)
    if block is None:
        return f"{layout.parts[layer.rsplit('/', 1)[-1]]}.{leaf}"
    part = layout.block_parts[layer[block.end() :]]
    return f"{block.expand(layout.block)}{part}.{leaf}"


def _require_all_read(layout, prefix, names, tensors):
    """Raises an error for weights of blocks that keras-hub does not have."""
    matches = (re.match(layout.block_path, path) for path in names)
    blocks = {prefix + one.expand(layout.block) for one in matches if one}
    for name in sorted(tensors.names - {*names.values()}):
        if name.startswith(tuple(blocks)) and not re.search(
            layout.ignored, name
        ):
            raise UsageError(
                f"The weights in {tensors.path} contain {name}, which "
                "keras-hub's model does not have."
            )


def _value(variable, value, name, checkpoint):
    """Returns a tensor in the shape of a backbone's variable."""
    layout = checkpoint.family.checkpoints.weights
    shape = tuple(variable.shape)
    *_, layer, leaf = variable.path.split("/")
    if "position_embedding" in variable.path:
        value = value[checkpoint.num_skipped_positions :]
    if "segment_embedding" in variable.path and (
        len(value) == 1 or checkpoint.reads_one_segment
    ):
        value = np.repeat(value[:1], shape[0], axis=0)
    if layout.joined and layout.joined in name and layer in THIRDS:
        value = np.split(value, 3, axis=-1)[THIRDS.index(layer)]
    if leaf == "kernel":
        value = value.T if layout.is_transposed else value
        value = _kernel(value, variable)
    elif leaf == "bias":
        value = value.reshape(shape)
    elif leaf == OUTPUT_TABLE:
        value = value.T
    return value


def _kernel(weight, variable):
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


def head_layers(model, names) -> dict:
    """Returns the dense layers in a classifier's head, by name."""
    head_model = find_head(model) or model
    return {name: head_model.get_layer(name) for name in names}


def copy_head(place: Place, model, head: Head) -> int | None:
    """Copies a checkpoint's head into a classifier on its encoder.

    Returns the head's number of classes, `None` without a head. A head of
    another number than the model's is not copied.
    """
    config, family = place.config, checkpoint_family(place.config)
    names = family and family.checkpoints.head_layers(head.kind)
    if not names:
        return None
    ending = HEAD_CLASSES[head.kind]
    classes = config.get("architectures") or []
    is_classifier = any(name.endswith(ending) for name in classes)
    if not is_classifier and any(HAS_HEAD in name for name in classes):
        return None
    with Tensors(place.path) as tensors:
        if not (
            is_classifier
            or {f"{one}.bias" for one in names.values()} <= tensors.names
        ):
            if not classes:
                warnings.warn(
                    f"The config of {place.path} names no class in "
                    "'architectures', and the weights have no head for "
                    f"{ending}. The classifier gets a new head with random "
                    "weights. Fine-tune it before you use its logits.",
                    stacklevel=2,
                )
            return None
        values = {
            layer: [
                tensors.read(f"{name}.weight").T,
                tensors.read(f"{name}.bias"),
            ]
            for layer, name in names.items()
        }
    kernel, bias = values[LOGITS]
    order = _order(config.get("id2label"), head.class_names, len(bias))
    if order is not None:
        values[LOGITS] = [kernel[:, order], bias[order]]
    layers = head_layers(model, names)
    if len(bias) != layers[LOGITS].units:
        return len(bias)
    for layer, weights in values.items():
        layers[layer].set_weights(weights)
    return model.output_shape[-1]


def _order(id2label, class_names, num_classes):
    """Returns the checkpoint's numbers of the task's classes, by name."""
    if not id2label or not class_names or len(class_names) != num_classes:
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


def has_masked_lm(place: Place) -> bool:
    """Whether a model is a checkpoint with a head for masked tokens."""
    family = checkpoint_family(place.config)
    layout = family and family.checkpoints.masked_lm
    if not layout:
        return False
    with Tensors(place.path) as tensors:
        return f"{layout.dense}.weight" in tensors


def checkpoint_language_model(place: Place, backbone):
    """Adds a checkpoint's own head to its backbone, if it has one."""
    family = checkpoint_family(place.config)
    if family is None:
        return None
    head = read_checkpoint(place).head
    form, layout = family.checkpoints, family.checkpoints.masked_lm
    with Tensors(place.path) as tensors:
        if family.is_decoder:
            if getattr(backbone, "tie_word_embeddings", True):
                _require_tied(form.tied_logits, form, tensors)
            return family.causal_lm(backbone)
        if f"{layout.dense}.weight" not in tensors:
            return None
        _require_tied(layout.decoder, form, tensors)
        own = family.head_settings
        model = build(family.masked_lm, own, head, backbone=backbone)
        parts = {
            "intermediate_dense": layout.dense,
            "intermediate_layer_norm": layout.layer_norm,
        }
        biases = [name for name in layout.biases if name in tensors]
        for variable in model.masked_lm_head.weights:
            *_, layer, leaf = variable.path.split("/")
            if leaf == "output_bias":
                variable.assign(tensors.read(biases[0]))
            elif layer in parts:
                value = tensors.read(f"{parts[layer]}.{LEAVES[leaf]}")
                if leaf == "kernel":
                    value = _kernel(value.T, variable)
                variable.assign(value)
    return model


def _require_tied(decoder, form, tensors):
    """Raises an error for a head with its own embeddings."""
    if decoder not in tensors:
        return
    layout = form.weights
    table = f"{layout.parts['token_embedding']}.weight"
    embeddings = tensors.read(tensors.base_prefix(layout) + table)
    if not np.array_equal(tensors.read(decoder), embeddings):
        raise UsageError(
            f"{tensors.path}: {decoder} is not the token embeddings, as in "
            "keras-hub's models."
        )
