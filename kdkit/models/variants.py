"""Models with an activation or an epsilon that keras-hub's classes lack.

keras-hub's BERT, ALBERT and ELECTRA compute GELU approximated by tanh, and each
family has one epsilon for layer normalization. Other checkpoints need other
values. They are read into subclasses of keras-hub's classes with the same
names, layers and weight files, and with one more argument. Every copy made by
`get_config` and `from_config` has it too: a copy in another precision,
`keras.models.clone_model`, a `.keras` file.

A preset is saved with keras-hub's own class, and the settings are saved in
`kdkit.json`. keras-hub ignores that file, kdkit's loaders apply it.
"""

import dataclasses
import functools

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import ALL_FAMILIES, adapters_of, family_of
from kdkit.models.families.family import BlockSettings
from kdkit.taps import private

FIELDS = tuple(field.name for field in dataclasses.fields(BlockSettings))
BLOCKS, HEAD = "", "head_"  # before a field's name in `kdkit.json`
NORMS = ("embeddings_layer_norm", "layer_norm")  # outside the blocks


def gelu_new(x):
    """GELU approximated by tanh, as OpenAI and Google computed it."""
    return keras.activations.gelu(x, approximate=True)


class _Variant:
    """keras-hub's class of this name, with other `BlockSettings`."""

    def __init__(self, *args, settings, **kwargs):
        super().__init__(*args, **kwargs)
        self.settings = BlockSettings(**settings)
        epsilon = self.settings.layer_norm_epsilon
        activation = gelu_new
        if self.settings.activation != "gelu_new":
            activation = getattr(keras.activations, self.settings.activation)
        if isinstance(self, keras_hub.models.Backbone):
            for block in adapters_of(self)[""]:
                block.set_functions(activation, epsilon)
            norms = [getattr(self, name, None) for name in NORMS]
        else:
            head = self.masked_lm_head
            dense, *norms = private.masked_lm_layers(head)
            head.intermediate_activation = dense.activation = activation
            head.layer_norm_epsilon = epsilon
        for norm in filter(None, norms):
            norm.epsilon = epsilon

    def get_config(self):
        settings = dataclasses.asdict(self.settings)
        return {**super().get_config(), "settings": settings}

    def save_to_preset(self, preset_dir, max_shard_size=10):
        del max_shard_size
        raise UsageError(
            f"keras-hub has no class for {self.settings}. To write "
            f"{preset_dir}, call kdkit.models.save_model."
        )


@functools.cache
def _variant(cls):
    """Returns the registered subclass of one of keras-hub's classes."""
    attributes = {"__doc__": _Variant.__doc__, "__module__": __name__}
    attributes["keras_hub_class"] = cls
    if issubclass(cls, keras_hub.models.Task):
        # With another `backbone_cls` keras-hub might take it for its own class.
        attributes["backbone_cls"] = _variant(cls.backbone_cls)
    made = type(cls.__name__, (_Variant, cls), attributes)
    return keras.saving.register_keras_serializable("kdkit")(made)


# Files contain the names of these classes, so they are registered up front.
for _family in ALL_FAMILIES.values():
    if _family.block_settings is not None:
        _variant(_family.backbone)
    if _family.head_settings is not None:
        _variant(_family.masked_lm)


def build(cls, own: BlockSettings, settings: BlockSettings, **arguments):
    """Builds one of keras-hub's classes, or its variant for other settings."""
    if settings == own:
        return cls(**arguments)
    return _variant(cls)(settings=dataclasses.asdict(settings), **arguments)


def block_settings(backbone) -> BlockSettings | None:
    """Returns the settings of a backbone's blocks."""
    if isinstance(backbone, _Variant):
        return backbone.settings
    return family_of(backbone).block_settings


def keras_hub_backbone(backbone, **sizes):
    """Returns a new backbone of keras-hub's own class, with random weights."""
    cls, config = _keras_hub_config(backbone)
    del config["name"], config["trainable"]
    return cls.from_config(config | sizes)


def as_keras_hub(model):
    """Returns a copy of keras-hub's own class."""
    return _copy(model, {})


def with_settings(model, entries: dict):
    """Returns the model, or a copy with settings from `kdkit.json`."""
    names = (prefix + name for prefix in (BLOCKS, HEAD) for name in FIELDS)
    return model if entries.keys().isdisjoint(names) else _copy(model, entries)


def _copy(model, entries):
    backbone = getattr(model, "backbone", None)
    cls, config = _keras_hub_config(model)
    if backbone is not None:
        config["backbone"] = _copy(backbone, entries)
    prefix = BLOCKS if backbone is None else HEAD
    settings = {
        name: entries[prefix + name]
        for name in FIELDS
        if prefix + name in entries
    }
    if settings:
        cls, config = _variant(cls), {**config, "settings": settings}
    copy = cls.from_config(config)
    copy.set_weights(model.get_weights())
    return copy


def _keras_hub_config(model):
    """Returns a model's class in keras-hub, and its config for that class."""
    family = family_of(model)
    config = family.config(model) if family else model.get_config()
    config.pop("settings", None)
    return getattr(model, "keras_hub_class", type(model)), config


def extra_settings(model) -> dict:
    """Returns the settings that keras-hub's classes lack, for `kdkit.json`."""
    parts = {HEAD: model, BLOCKS: getattr(model, "backbone", model)}
    if parts[HEAD] is parts[BLOCKS]:
        del parts[HEAD]
    return {
        prefix + name: value
        for prefix, part in parts.items()
        if isinstance(part, _Variant)
        for name, value in dataclasses.asdict(part.settings).items()
    }
