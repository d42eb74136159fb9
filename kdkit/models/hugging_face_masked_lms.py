"""Heads of Hugging Face checkpoints that predict masked tokens."""

import pathlib

import numpy as np

from kdkit.errors import UsageError
from kdkit.models.backbones import hugging_face_config
from kdkit.models.families import family_of
from kdkit.models.hugging_face_config import CheckpointConfig
from kdkit.models.hugging_face_config import read_checkpoint_config
from kdkit.models.hugging_face_weights import LEAVES
from kdkit.models.hugging_face_weights import Tensors
from kdkit.models.hugging_face_weights import dense_kernel
from kdkit.models.variants import build_masked_lm


def has_masked_lm_head(path: pathlib.Path) -> bool:
    """Whether a directory is a checkpoint with a head for masked tokens.

    Only names of tensors are read.

    Args:
        path: `pathlib.Path` of a directory whose files were checked.
    """
    checkpoint = _checkpoint(path)
    layout = checkpoint and checkpoint.family.checkpoints.masked_lm
    if layout is None:
        return False
    with Tensors(path) as tensors:
        return _has_head(layout, tensors)


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
    form = family.checkpoints
    with Tensors(path) as tensors:
        if family.is_decoder:
            _check_tied(form.tied_logits, form, tensors)
            return family.causal_lm(backbone)
        layout = form.masked_lm
        if not _has_head(layout, tensors):
            return None
        _check_tied(layout.decoder, form, tensors)
        model = build_masked_lm(backbone, checkpoint.head)
        _load_head(model.masked_lm_head, layout, tensors)
    return model


def _checkpoint(path) -> CheckpointConfig | None:
    config = hugging_face_config(path)
    if config is None:
        return None
    return read_checkpoint_config(config, path / "config.json")


def _has_head(layout, tensors):
    return f"{layout.dense}.weight" in tensors


def _load_head(head, layout, tensors):
    names = {"output_bias": _bias(layout, tensors)}
    for layer, name in (
        ("intermediate_dense", layout.dense),
        ("intermediate_layer_norm", layout.layer_norm),
    ):
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


def _check_tied(decoder, form, tensors):
    """Refuses a head whose embeddings are not the encoder's."""
    if decoder not in tensors:
        return
    layout = form.weights
    table = f"{layout.parts['token_embedding']}.weight"
    embeddings = tensors.read(tensors.base_prefix(layout) + table)
    if not np.array_equal(tensors.read(decoder), embeddings):
        raise UsageError(
            f"{tensors.path}: {decoder} is not the token embeddings "
            "('tie_word_embeddings' is false). Expected a head with the "
            "embeddings' weights, as keras-hub's is. Use the encoder alone, or "
            "a checkpoint with tied embeddings."
        )
