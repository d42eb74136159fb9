"""Loads backbones from presets and from Hugging Face checkpoints."""

import dataclasses
import pathlib
import warnings

import keras_hub

from kdkit.errors import UsageError
from kdkit.models.hugging_face import (
    Tensors,
    checkpoint_config,
    read_checkpoint,
)
from kdkit.models.hugging_face import load_weights as assign_weights
from kdkit.models.tokenizer_files import reads_one_segment
from kdkit.models.variants import saved_settings, with_settings


def load_backbone(place, load_weights=True, needs_pooler=True):
    """Loads a backbone from a directory or by a preset's name."""
    path = pathlib.Path(place)
    config = checkpoint_config(path)
    if config is None:
        require_preset(place)
        backbone = keras_hub.models.Backbone.from_preset(
            str(place), load_weights=load_weights
        )
        return with_settings(backbone, saved_settings(path))
    checkpoint = read_checkpoint(config, path / "config.json")
    backbone = checkpoint.build()
    if load_weights:
        one_segment = reads_one_segment(path, checkpoint.family)
        checkpoint = dataclasses.replace(
            checkpoint, reads_one_segment=one_segment
        )
        with Tensors(path) as tensors:
            lacks_pooler = assign_weights(backbone, checkpoint, tensors)
        if lacks_pooler and needs_pooler:
            warnings.warn(
                f"The checkpoint in {path} has no pooler. Its encoder gets a "
                "new pooler with random weights. Fine-tune it before you use "
                "pooled_output.",
                stacklevel=2,
            )
    return backbone


def require_preset(place):
    """Raises an error for what is neither a path nor a preset's name."""
    is_known = str(place) in keras_hub.models.Backbone.presets
    if not (is_known or "://" in str(place) or pathlib.Path(place).exists()):
        raise UsageError(f"There is no file, directory or preset {place}.")
