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
from kdkit.models.families import ALL_FAMILIES, Family
from kdkit.models.families.checkpoints import (
    BERT_SIZES,
    HEAD_CLASSES,
    WeightLayout,
)
from kdkit.models.families.family import BlockSettings
from kdkit.models.heads import Head, find_head
from kdkit.models.places import Place
from kdkit.models.variants import block_settings, build

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
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
# In the order of a joined tensor.
THIRDS = ("query", "key", "value")
POOLER = "pooled_dense"
OUTPUT_TABLE = "reverse_embeddings"
LOGITS = "logits"  # the last layer of each head
# Part of the names of classes whose heads serve other tasks.
HAS_HEAD = "For"


def checkpoint_family(place: Place) -> Family | None:
    """Returns the family of a checkpoint, `None` for what is no checkpoint."""
    if not place.is_checkpoint:
        return None
    known = {
        family.checkpoints.model_type: family
        for family in ALL_FAMILIES.values()
        if family.checkpoints
    }
    name = place.config["model_type"]
    if name not in known:
        raise unknown("model_type of a checkpoint", name, known)
    return known[name]


def load_backbone(
    place: Place, tokenizer=None, has_weights=True, needs_pooler=False
):
    """Builds a checkpoint's backbone from its files."""
    family = checkpoint_family(place)
    form, own = family.checkpoints, family.block_settings
    config = {**place.config, **(place.config.get("rope_parameters") or {})}
    for name, expected in REQUIRED.items():
        value = config.get(name)
        if name == "is_decoder" and family.is_decoder:
            continue
        if value not in (None, {}, expected):
            raise UsageError(
                f"{place.path}: {name!r} is {value!r}. Expected {expected!r}, "
                "which keras-hub's model computes."
            )
    sizes = {}
    for size, (name, default) in form.sizes.items():
        usual, _ = BERT_SIZES.get(size, (name, None))
        sizes[size] = config.get(name, config.get(usual, default))
    if sizes["intermediate_dim"] is None:
        sizes["intermediate_dim"] = 4 * sizes["hidden_dim"]
    skipped = 0
    if form.positions_follow_padding:
        skipped = config.get("pad_token_id", 1) + 1
        sizes["max_sequence_length"] -= skipped
        if tokenizer is not None and skipped != tokenizer.pad_token_id + 1:
            raise UsageError(
                f"{place.path}: positions count from pad_token_id="
                f"{skipped - 1}. The tokenizer pads with "
                f"{tokenizer.pad_token_id}."
            )
    if "num_segments" in sizes:
        # Pairs need two segments; the second row is a copy of the only one.
        sizes["num_segments"] = max(sizes["num_segments"], 2)
    sizes["dropout"] = float(config.get(*form.dropout))
    name = config.get(*form.activation)
    if name not in ACTIVATIONS:
        raise unknown(form.activation[0], name, ACTIVATIONS)
    epsilon = float(config.get(*form.epsilon))
    settings = BlockSettings(ACTIVATIONS[name], epsilon)
    backbone = build(family.backbone, own, settings, **sizes)
    if not has_weights:
        return backbone
    has_pairs = getattr(tokenizer, "num_segments", 2) > 1
    with Tensors(place.path) as tensors:
        lacks = _load_weights(backbone, form, tensors, skipped, has_pairs)
    if lacks and needs_pooler:
        warnings.warn(
            f"The checkpoint in {place.path} has no pooler. Its encoder gets a "
            "new pooler with random weights. Fine-tune it before you use "
            "pooled_output.",
            stacklevel=3,
        )
    return backbone


class Tensors(contextlib.ExitStack):
    """A checkpoint's tensors by name, read one at a time."""

    def __init__(self, path: pathlib.Path):
        super().__init__()
        self.path, self.names = path, {}
        files = [WEIGHTS]
        # If both exist, transformers reads the single file first.
        if not (path / WEIGHTS).is_file() and (path / SHARDS).is_file():
            shards = read_json(path / SHARDS, "a list of files of weights")
            files = sorted({*shards["weight_map"].values()})
        for file in files:
            opened = self.enter_context(
                safetensors.safe_open(path / file, framework="np")
            )
            for name in opened.keys():  # noqa: SIM118
                today = re.sub(r"\.gamma$", ".weight", name)
                today = re.sub(r"\.beta$", ".bias", today)
                self.names[today] = (opened, name)

    def __contains__(self, name):
        return name in self.names

    def integers(self, name: str) -> np.ndarray:
        """Returns a tensor of whole numbers."""
        opened, stored_name = self.names[name]
        return opened.get_tensor(stored_name)

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor in float32."""
        opened, stored_name = self.names[name]
        kind = opened.get_slice(stored_name).get_dtype()
        if kind not in FLOATS:
            raise UsageError(
                f"{self.path}: {stored_name} is of type {kind}. Expected one "
                f"of {', '.join(FLOATS)}."
            )
        return np.asarray(opened.get_tensor(stored_name), "float32")

    def base_prefix(self, layout: WeightLayout) -> str:
        """Returns the prefix of the base model's names."""
        table = f".{layout.parts['token_embedding']}.weight"
        found = [name for name in self.names if f".{name}".endswith(table)]
        if len(found) != 1:
            raise UsageError(
                f"The weights in {self.path} contain {len(found)} models. "
                f"Expected one tensor {table[1:]}."
            )
        return found[0].removesuffix(table[1:])


def write_tensors(
    path: pathlib.Path, tensors: dict, metadata=None, dtype="float32"
) -> None:
    """Writes arrays as a safetensors file with the mode of any new file."""
    path.touch()
    mode = path.stat().st_mode
    # The library would write other values for transposed and strided arrays.
    tensors = {
        name: np.asarray(value, dtype, order="C")
        for name, value in tensors.items()
    }
    metadata = metadata or {"format": "pt"}
    safetensors.numpy.save_file(tensors, path, metadata=metadata)
    path.chmod(mode)


def _load_weights(backbone, form, tensors, num_skipped, has_pairs):
    """Assigns a checkpoint's weights; returns whether it lacks a pooler."""
    prefix = tensors.base_prefix(form.weights)
    names = tensor_names(backbone, form, prefix)
    pooler = [path for path in names if path.startswith(f"{POOLER}/")]
    lacks_pooler = bool(pooler) and names[pooler[0]] not in tensors
    for path in pooler if lacks_pooler else ():
        del names[path]
    _require_all_read(form.weights, prefix, names, tensors)
    for variable in backbone.weights:
        path = variable.path
        if path not in names:
            continue
        value = tensors.read(names[path])
        if "position_embedding" in path:
            value = value[num_skipped:]
        if "segment_embedding" in path and not (has_pairs and len(value) > 1):
            value = np.repeat(value[:1], variable.shape[0], axis=0)
        variable.assign(_value(variable, value, names[path], form.weights))
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


def _leaf(name):
    return "bias" if name in ("bias", "beta") else "weight"


def _tensor_name(layout, path):
    layer, leaf = path.rsplit("/", 1)
    leaf = _leaf(leaf)
    block = re.match(layout.block_path, path)
    if block is None:
        return f"{layout.parts[layer.rsplit('/', 1)[-1]]}.{leaf}"
    part = layout.block_parts[layer[block.end() :]]
    return f"{block.expand(layout.block)}{part}.{leaf}"


def _require_all_read(layout, prefix, names, tensors):
    """Raises an error for weights of blocks that keras-hub does not have."""
    matches = (re.match(layout.block_path, path) for path in names)
    blocks = {prefix + one.expand(layout.block) for one in matches if one}
    for name in sorted(tensors.names.keys() - {*names.values()}):
        if name.startswith(tuple(blocks)) and not re.search(
            layout.ignored, name
        ):
            raise UsageError(
                f"The weights in {tensors.path} contain {name}, which "
                "keras-hub's model does not have."
            )


def _value(variable, value, name, layout):
    """Returns a tensor in the shape of a backbone's variable."""
    *_, layer, leaf = variable.path.split("/")
    if layout.joined and layout.joined in name:
        value = np.split(value, 3, axis=-1)[THIRDS.index(layer)]
    if leaf == "kernel":
        return _kernel(value.T if layout.is_transposed else value, variable)
    if leaf == OUTPUT_TABLE:
        return value.T
    return value.reshape(variable.shape) if leaf == "bias" else value


def kernel_shape(variable) -> tuple[int, int]:
    """Returns the inputs and the outputs of a Keras kernel."""
    shape = variable.shape
    num_inputs = len(shape) - 1 if "attention_output" in variable.path else 1
    return math.prod(shape[:num_inputs]), math.prod(shape[num_inputs:])


def _kernel(weight, variable):
    """Returns a linear layer's weight in the shape of a Keras kernel."""
    expected = kernel_shape(variable)
    if weight.shape != expected:
        raise UsageError(
            f"{variable.path} has weights of another shape. Expected "
            f"{expected}. Received: {weight.shape}."
        )
    return weight.reshape(variable.shape)


def head_layers(model, names) -> dict:
    """Returns the dense layers in a classifier's head, by name."""
    head_model = find_head(model) or model
    return {name: head_model.get_layer(name) for name in names}


def copy_head(place: Place, model, head: Head) -> bool:
    """Copies a checkpoint's head into a classifier on its encoder.

    Returns whether there is one, of the same number of classes.
    """
    config, family = place.config, checkpoint_family(place)
    names = family and family.checkpoints.head_layers(head.kind)
    others = [
        name
        for name in config.get("architectures") or []
        if HAS_HEAD in name and not name.endswith(HEAD_CLASSES[head.kind])
    ]
    if not names or others:
        return False
    values = {}
    with Tensors(place.path) as tensors:
        for layer, name in names.items():
            if f"{name}.bias" not in tensors:
                return False
            kernel = tensors.read(f"{name}.weight").T
            values[layer] = [kernel, tensors.read(f"{name}.bias")]
    kernel, bias = values[LOGITS]
    order = _order(config.get("id2label"), head.class_names, len(bias))
    if order is not None:
        values[LOGITS] = [kernel[:, order], bias[order]]
    layers = head_layers(model, names)
    has_same = len(bias) == layers[LOGITS].units
    for layer, weights in values.items() if has_same else ():
        layers[layer].set_weights(weights)
    return has_same


def _order(id2label, class_names, num_classes):
    """Returns the checkpoint's numbers of the task's classes, by name."""
    numbers = {_plain(one): int(n) for n, one in (id2label or {}).items()}
    names = list(map(_plain, class_names or ()))
    if len(names) == len(numbers) == num_classes and {*names} == {*numbers}:
        return [numbers[name] for name in names]
    return None


def _plain(name):
    return str(name).casefold().replace("-", "_").replace(" ", "_")


def checkpoint_language_model(place: Place, backbone):
    """Adds a checkpoint's own head to its backbone, if it has one."""
    family = checkpoint_family(place)
    if family is None:
        return None
    form, layout = family.checkpoints, family.checkpoints.masked_lm
    with Tensors(place.path) as tensors:
        if family.is_decoder:
            if family.token_embedding(backbone).tie_weights:
                _require_tied(form.tied_logits, form, tensors)
            return family.causal_lm(backbone)
        if f"{layout.dense}.weight" not in tensors:
            return None
        _require_tied(f"{layout.decoder}.weight", form, tensors)
        own, head = family.head_settings, block_settings(backbone)
        if form.masked_lm_activation:
            activation = form.masked_lm_activation
            head = dataclasses.replace(head, activation=activation)
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
                value = tensors.read(f"{parts[layer]}.{_leaf(leaf)}")
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
