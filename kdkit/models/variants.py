"""Models with an activation or an epsilon that keras-hub's classes lack.

keras-hub's BERT, ALBERT and ELECTRA compute GELU approximated by tanh, and each
family has one epsilon for layer normalization. Other checkpoints need other
values. They are read into subclasses of keras-hub's classes with the same
names, layers and weight files, and with two more arguments. Every copy made by
`get_config` and `from_config` has these arguments too: a copy in another
precision, `keras.models.clone_model`, a `.keras` file.

A preset is saved with keras-hub's own class, and the settings are saved in
`kdkit.json`. keras-hub ignores that file, and some outputs then differ: the
preset's README states which. kdkit's loader applies the file.
"""

import dataclasses
import functools
import json
import math
import pathlib

import keras
import numpy as np
from keras import ops

from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.io.reading import read_json
from kdkit.models.block_settings import BlockSettings, activation_function
from kdkit.models.families import ALL_FAMILIES, adapters_of, family_of
from kdkit.taps import private

NAMES = (  # in `kdkit.json`
    "activation",
    "layer_norm_epsilon",
    "head_activation",
    "head_layer_norm_epsilon",
)
NORMS = ("embeddings_layer_norm", "layer_norm")  # outside the blocks


class _Backbone:
    """A keras-hub backbone with two more arguments."""

    def __init__(self, hidden_activation, layer_norm_epsilon, **kwargs):
        super().__init__(**kwargs)
        self.block_settings = BlockSettings(
            hidden_activation, layer_norm_epsilon
        )
        activation = activation_function(hidden_activation)
        for block in adapters_of(self)[""]:
            block.set_functions(activation, layer_norm_epsilon)
        for name in NORMS:
            norm = getattr(self, name, None)
            if norm is not None:
                norm.epsilon = layer_norm_epsilon

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_activation": self.block_settings.activation,
            "layer_norm_epsilon": self.block_settings.layer_norm_epsilon,
        }

    def save_to_preset(self, preset_dir, max_shard_size=10):
        """Saves keras-hub's own class, and the settings in `kdkit.json`."""
        plain = as_keras_hub(self)
        plain.save_to_preset(preset_dir, max_shard_size=max_shard_size)
        # keras-hub has already written the task's config.
        entry = keras.saving.serialize_keras_object(plain)
        replace_entries(preset_dir, "hidden_activation", entry)
        save_settings(self, preset_dir)


class _MaskedLM:
    """A keras-hub masked language model with two more arguments."""

    def __init__(self, backbone, head_activation, head_epsilon, **kwargs):
        super().__init__(backbone, **kwargs)
        self.head_settings = BlockSettings(head_activation, head_epsilon)
        head = self.masked_lm_head
        dense, layer_norm = private.masked_lm_layers(head)
        activation = activation_function(head_activation)
        head.intermediate_activation = dense.activation = activation
        head.layer_norm_epsilon = layer_norm.epsilon = head_epsilon

    def get_config(self):
        return {
            **super().get_config(),
            "head_activation": self.head_settings.activation,
            "head_epsilon": self.head_settings.layer_norm_epsilon,
        }

    def save_to_preset(self, preset_dir, max_shard_size=10):
        """Raises an error: a loaded head would have other settings."""
        del max_shard_size
        raise UsageError(
            "keras-hub has no such head. Call kdkit.models.save_language_model "
            f"instead, which writes {preset_dir} and kdkit.json."
        )


def _subclass(mixin, cls, **attributes):
    """Returns a registered subclass with the name of keras-hub's class."""
    attributes |= {
        "__doc__": f"{mixin.__doc__} See `keras_hub.models.{cls.__name__}`.",
        "__module__": __name__,
    }
    made = type(cls.__name__, (mixin, cls), attributes)
    return keras.saving.register_keras_serializable("kdkit")(made)


@functools.cache
def _backbone_class(name):
    return _subclass(_Backbone, ALL_FAMILIES[name].backbone)


@functools.cache
def _masked_lm_class(name):
    # With another `backbone_cls` keras-hub might take it for its own class.
    return _subclass(
        _MaskedLM,
        ALL_FAMILIES[name].masked_lm,
        backbone_cls=_backbone_class(name),
    )


# Files contain the names of these classes, so they are registered up front.
for _family in ALL_FAMILIES.values():
    if _family.block_settings is not None:
        _backbone_class(_family.name)
    if _family.head_settings is not None:
        _masked_lm_class(_family.name)


def build_backbone(name, settings: BlockSettings, **sizes):
    """Builds a family's backbone with settings for its blocks."""
    family = ALL_FAMILIES[name]
    if settings.is_same(family.block_settings):
        return family.backbone(**sizes)
    return _backbone_class(name)(
        hidden_activation=settings.activation,
        layer_norm_epsilon=settings.layer_norm_epsilon,
        **sizes,
    )


def build_masked_lm(backbone, settings: BlockSettings):
    """Adds a masked-language-model head to a backbone."""
    family = family_of(backbone)
    if settings.is_same(family.head_settings):
        return family.masked_lm(backbone)
    return _masked_lm_class(family.name)(
        backbone,
        head_activation=settings.activation,
        head_epsilon=settings.layer_norm_epsilon,
    )


def extra_settings(model) -> dict:
    """Returns a model's settings that keras-hub's classes lack."""
    found = {}
    backbone = getattr(model, "backbone", model)
    for part, prefix, attribute in (
        (backbone, "", "block_settings"),
        (model, "head_", "head_settings"),
    ):
        settings = getattr(part, attribute, None)
        if settings is None:
            continue
        own = getattr(family_of(backbone), attribute)
        if settings.activation != own.activation:
            found[f"{prefix}activation"] = settings.activation
        epsilon = settings.layer_norm_epsilon
        if not math.isclose(epsilon, own.layer_norm_epsilon):
            found[f"{prefix}layer_norm_epsilon"] = epsilon
    return found


def saved_settings(path) -> dict:
    """Returns the settings in a preset's `kdkit.json`, if there are any."""
    extras = load_extras(path)
    return {name: extras[name] for name in NAMES if name in extras}


def own_class(model) -> type:
    """Returns a model's class in keras-hub, or its own class."""
    mixins = (_Backbone, _MaskedLM)
    return next(
        cls for cls in type(model).__mro__ if not issubclass(cls, mixins)
    )


def save_settings(model, path) -> None:
    """Writes a model's settings into its preset's `kdkit.json`."""
    save_extras(path, **dict.fromkeys(NAMES) | extra_settings(model))


def keras_hub_backbone(backbone, **sizes):
    """Returns a new backbone with keras-hub's own class and settings."""
    config = _without_settings(_backbone_config(backbone)) | sizes
    for name in ("name", "trainable"):
        config.pop(name, None)
    return own_class(backbone).from_config(config)


def as_keras_hub(model):
    """Returns a copy with keras-hub's own class and settings."""
    return _copy(model, {})


def with_settings(model, settings: dict):
    """Returns the model, or a copy with the given settings."""
    return _copy(model, settings) if settings else model


def _copy(model, settings):
    backbone = getattr(model, "backbone", None)
    if backbone is None:
        copy = _copied_backbone(model, settings)
    else:
        config = _without_settings(model.get_config())
        config["backbone"] = _copied_backbone(backbone, settings)
        copy = _task_class(model, settings).from_config(
            config | _head_arguments(model, settings)
        )
    copy.set_weights(model.get_weights())
    return copy


def _copied_backbone(backbone, settings):
    """Returns a new backbone with the same sizes and random weights."""
    sizes = _without_settings(_backbone_config(backbone))
    family = family_of(backbone)
    own = family.block_settings if family else None
    given = {
        name: settings[name]
        for name in ("activation", "layer_norm_epsilon")
        if name in settings
    }
    if not given:
        return own_class(backbone).from_config(sizes)
    chosen = dataclasses.replace(own, **given)
    if chosen.is_same(own):
        return own_class(backbone).from_config(sizes)
    return _backbone_class(family.name).from_config(
        {
            **sizes,
            "hidden_activation": chosen.activation,
            "layer_norm_epsilon": chosen.layer_norm_epsilon,
        }
    )


def _head_arguments(model, settings):
    """Returns the arguments of a masked-LM head with its own settings."""
    given = {
        name.removeprefix("head_"): value
        for name, value in settings.items()
        if name.startswith("head_")
    }
    if not given:
        return {}
    own = family_of(model.backbone).head_settings
    chosen = dataclasses.replace(own, **given)
    return {
        "head_activation": chosen.activation,
        "head_epsilon": chosen.layer_norm_epsilon,
    }


def _task_class(model, settings):
    if _head_arguments(model, settings):
        return _masked_lm_class(family_of(model.backbone).name)
    return own_class(model)


def _backbone_config(backbone):
    family = family_of(backbone)
    return backbone.get_config() if family is None else family.config(backbone)


def _without_settings(config):
    return {
        name: value
        for name, value in config.items()
        if name
        not in (
            "hidden_activation",
            "layer_norm_epsilon",
            "head_activation",
            "head_epsilon",
        )
    }


NUM_ROWS = 4
LENGTH = 16
NUM_PREDICTIONS = 4


def settings_note(model) -> str:
    """Returns a note on the differences when the preset loads without kdkit."""
    settings = extra_settings(model)
    if not settings:
        return ""
    family = family_of(getattr(model, "backbone", model))
    parts = []
    for key, value in settings.items():
        own, head_suffix = family.block_settings, ""
        if key.startswith("head_"):
            own, head_suffix = family.head_settings, " of the head"
        field = key.removeprefix("head_")
        parts.append(
            f"the {field.replace('_', ' ')}{head_suffix} is {value} and not "
            f"{getattr(own, field)}"
        )
    difference, largest = _difference(model, as_keras_hub(model))
    return (
        f"With kdkit, {', '.join(parts)}. keras-hub's own classes have no "
        "argument for this: loaded without kdkit, the outputs differ by up to "
        f"{difference:.1g} of {largest:.1g} (measured on {NUM_ROWS} generated "
        f"rows of {LENGTH} tokens)."
    )


def _difference(model, other):
    """Returns the largest difference of outputs, and the largest output."""
    inputs = _generated(model)
    pairs = [
        [ops.convert_to_numpy(output) for output in outputs]
        for outputs in zip(
            keras.tree.flatten(model(inputs, training=False)),
            keras.tree.flatten(other(inputs, training=False)),
            strict=True,
        )
    ]
    return (
        max(float(np.abs(one - two).max()) for one, two in pairs),
        max(float(np.abs(one).max()) for one, _ in pairs),
    )


def _generated(model):
    backbone = getattr(model, "backbone", model)
    generator = np.random.default_rng(0)
    family = family_of(backbone)
    length = min(LENGTH, family.num_positions(backbone) or LENGTH)
    shape = (NUM_ROWS, length)
    size = family.size(backbone, "vocabulary_size")
    inputs = {
        "token_ids": generator.integers(0, size, shape),
        "padding_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "mask_positions": np.tile(np.arange(NUM_PREDICTIONS), (NUM_ROWS, 1)),
    }
    return {name: inputs[name].astype("int32") for name in model.input}


EXTRAS_FILE = "kdkit.json"
TASK_CONFIGS = ("preprocessor.json", "task.json")


def save_extras(directory, **entries) -> None:
    """Writes entries into a preset's `kdkit.json`."""
    file = pathlib.Path(directory) / EXTRAS_FILE
    merged = {**load_extras(directory), **entries}
    merged = {key: entry for key, entry in merged.items() if entry is not None}
    if merged:
        write_text(file, f"{json.dumps(merged, indent=1)}\n")
    else:
        file.unlink(missing_ok=True)


def load_extras(directory) -> dict:
    """Returns the entries in a directory's `kdkit.json`, if there is one."""
    file = pathlib.Path(directory) / EXTRAS_FILE
    if not file.is_file():
        return {}
    return read_json(file, "the settings that kdkit adds to a preset")


def replace_entries(directory, argument: str, entry: dict) -> None:
    """Replaces serialized objects in a preset's configs."""
    for name in TASK_CONFIGS:
        file = pathlib.Path(directory) / name
        if file.is_file():
            config = read_json(file, "the config of a preset")
            config = _replaced(config, argument, entry)
            write_text(file, json.dumps(config, indent=4))


def _replaced(config, argument, entry):
    if isinstance(config, list):
        return [_replaced(one, argument, entry) for one in config]
    if not isinstance(config, dict):
        return config
    if argument in (config.get("config") or ()):
        return entry
    return {
        name: _replaced(one, argument, entry) for name, one in config.items()
    }
