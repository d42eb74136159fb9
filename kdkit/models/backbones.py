"""Backbones from presets and from Hugging Face checkpoints."""

import dataclasses
import pathlib
import warnings

import keras_hub

from kdkit.io.reading import read_json
from kdkit.models.hugging_face_config import is_convertible
from kdkit.models.hugging_face_config import read_checkpoint_config
from kdkit.models.hugging_face_tokenizers import reads_one_segment
from kdkit.models.hugging_face_weights import Tensors
from kdkit.models.hugging_face_weights import load_weights as assign_weights
from kdkit.models.variants import saved_settings
from kdkit.models.variants import with_settings


def load_backbone(place, load_weights=True, needs_pooler=True):
    """Loads the backbone in a directory, or of a preset's name.

    A Hugging Face checkpoint's `config.json` is followed as
    `kdkit.models.hugging_face_config` says, and its weights are read by the
    names in `kdkit.models.hugging_face_weights`. Everything else is loaded by
    keras-hub, and has the settings in its `kdkit.json`.

    Args:
        place: string or path of a directory whose files were checked, or the
            name of a keras-hub preset.
        load_weights: bool. `False` for random weights. Defaults to `True`.
        needs_pooler: bool. Whether to warn where a checkpoint has no pooler,
            so that the backbone's is random. Defaults to `True`.

    Returns:
        A keras-hub backbone.

    Raises:
        UsageError: (a `ValueError`) if a checkpoint asks for what keras-hub's
            models do not compute, or its weights do not fit. keras-hub raises
            errors of many kinds.
    """
    path = pathlib.Path(place)
    config = hugging_face_config(path)
    if config is None:
        backbone = keras_hub.models.Backbone.from_preset(
            str(place), load_weights=load_weights
        )
        return with_settings(backbone, saved_settings(path))
    checkpoint = read_checkpoint_config(config, path / "config.json")
    backbone = checkpoint.build()
    if load_weights:
        checkpoint = dataclasses.replace(
            checkpoint, reads_one_segment=reads_one_segment(path)
        )
        with Tensors(path) as tensors:
            lacks_pooler = assign_weights(backbone, checkpoint, tensors)
        if lacks_pooler and needs_pooler:
            warnings.warn(
                f"The checkpoint in {path} has no pooler. Its encoder gets a "
                "new one with random weights: fine-tune before you use "
                "pooled_output.",
                stacklevel=2,
            )
    return backbone


def hugging_face_config(path: pathlib.Path) -> dict | None:
    """Returns the `config.json` of a Hugging Face checkpoint that kdkit reads.

    Args:
        path: `pathlib.Path`.

    Returns:
        Dict; `None` for everything else.
    """
    file = path / "config.json"
    if not file.is_file():
        return None
    config = read_json(file, "the config of a model")
    return config if is_convertible(config) else None
