"""Heads of Hugging Face checkpoints that predict masked tokens."""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from kdkit.errors import UsageError
from kdkit.families import family_of
from kdkit.models.backbones import hugging_face_config
from kdkit.models.hugging_face_config import CheckpointConfig
from kdkit.models.hugging_face_config import read_checkpoint_config
from kdkit.models.hugging_face_weights import LAYOUTS
from kdkit.models.hugging_face_weights import LEAVES
from kdkit.models.hugging_face_weights import Tensors
from kdkit.models.hugging_face_weights import dense_kernel
from kdkit.models.variants import build_masked_lm


@dataclasses.dataclass(frozen=True)
class HeadLayout:
    """What the tensors of a head are called.

    Args:
        layers: dict from a layer of `keras_hub.layers.MaskedLMHead` to its
            name.
        biases: tuple of strings. The names that the bias of the vocabulary
            has; the first that is there is read.
        decoder: string. The name of the embeddings' copy in the head.
    """

    layers: Mapping[str, str]
    biases: tuple[str, ...]
    decoder: str


ROBERTA = HeadLayout(
    {
        "intermediate_dense": "lm_head.dense",
        "intermediate_layer_norm": "lm_head.layer_norm",
    },
    ("lm_head.bias", "lm_head.decoder.bias"),
    "lm_head.decoder.weight",
)
HEADS = {
    "bert": HeadLayout(
        {
            "intermediate_dense": "cls.predictions.transform.dense",
            "intermediate_layer_norm": "cls.predictions.transform.LayerNorm",
        },
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
        "cls.predictions.decoder.weight",
    ),
    "distil_bert": HeadLayout(
        {
            "intermediate_dense": "vocab_transform",
            "intermediate_layer_norm": "vocab_layer_norm",
        },
        ("vocab_projector.bias",),
        "vocab_projector.weight",
    ),
    "roberta": ROBERTA,
    "xlm_roberta": ROBERTA,
    "albert": HeadLayout(
        {
            "intermediate_dense": "predictions.dense",
            "intermediate_layer_norm": "predictions.LayerNorm",
        },
        ("predictions.bias", "predictions.decoder.bias"),
        "predictions.decoder.weight",
    ),
}
# Of decoders, whose head is their embeddings.
DECODERS = {"gpt2": "lm_head.weight"}


def has_masked_lm_head(path: pathlib.Path) -> bool:
    """Whether a directory is a checkpoint with a head for masked tokens.

    Only names of tensors are read.

    Args:
        path: `pathlib.Path` of a directory whose files were checked.
    """
    checkpoint = _checkpoint(path)
    if checkpoint is None or checkpoint.family.name not in HEADS:
        return False
    with Tensors(path) as tensors:
        return _has_head(HEADS[checkpoint.family.name], tensors)


def checkpoint_language_model(path: pathlib.Path, backbone):
    """Puts a checkpoint's own head on its backbone.

    Args:
        path: `pathlib.Path` of the directory that the backbone was loaded
            from.
        backbone: a keras-hub backbone.

    Returns:
        A `keras_hub.models.MaskedLM` or `keras_hub.models.CausalLM`; `None`
        where there is no checkpoint or no head in it.

    Raises:
        UsageError: (a `ValueError`) if tensors are missing or have another
            shape, or the head has embeddings of its own.
    """
    checkpoint = _checkpoint(path)
    if checkpoint is None:
        return None
    family = family_of(backbone)
    with Tensors(path) as tensors:
        if family.name in DECODERS:
            _check_tied(DECODERS[family.name], family.name, backbone, tensors)
            return family.causal_lm(backbone)
        layout = HEADS[family.name]
        if not _has_head(layout, tensors):
            return None
        _check_tied(layout.decoder, family.name, backbone, tensors)
        model = build_masked_lm(backbone, checkpoint.head)
        _load_head(model.masked_lm_head, layout, tensors)
    return model


def _checkpoint(path) -> CheckpointConfig | None:
    config = hugging_face_config(path)
    if config is None:
        return None
    return read_checkpoint_config(config, path / "config.json")


def _has_head(layout, tensors):
    name = layout.layers["intermediate_dense"]
    return f"{name}.weight" in tensors


def _load_head(head, layout, tensors):
    names = {"output_bias": _bias(layout, tensors)}
    for layer, name in layout.layers.items():
        for leaf in ("kernel", "bias", "gamma", "beta"):
            names[f"{layer}/{leaf}"] = f"{name}.{LEAVES[leaf]}"
    for variable in head.weights:
        path = variable.path.partition("/")[2]  # without the head's name
        if path not in names:
            continue  # the embeddings
        tensor = value = tensors.read(names[path])
        if path.endswith("kernel"):
            value = dense_kernel(tensor.T, variable)
        if value is None or value.shape != tuple(variable.shape):
            raise UsageError(
                f"{tensors.path}: {names[path]} has the shape {tensor.shape}, "
                f"which does not fit {tuple(variable.shape)}. Restore the "
                "checkpoint from a copy."
            )
        variable.assign(value)


def _bias(layout, tensors):
    """The name of the bias that is there, or else the first."""
    found = [name for name in layout.biases if name in tensors]
    return (found or layout.biases)[0]


def _check_tied(decoder, name, backbone, tensors):
    """Refuses a head whose embeddings are not the encoder's."""
    if decoder not in tensors:
        return
    layout = LAYOUTS[name]
    table = f"{layout.parts['token_embedding']}.weight"
    embeddings = tensors.read(tensors.base_prefix(layout) + table)
    if not np.array_equal(tensors.read(decoder), embeddings):
        raise UsageError(
            f"{tensors.path}: {decoder} is not the token embeddings "
            "('tie_word_embeddings' is false). Expected a head with the "
            "embeddings' weights, as keras-hub's is. Use the encoder alone, or "
            "a checkpoint with tied embeddings."
        )
