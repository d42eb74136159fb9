"""Building students from a preset or a configuration."""

import dataclasses
from collections.abc import Mapping

from kdkit import models
from kdkit.errors import UsageError
from kdkit.models.bilstm import build_bilstm
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.heads import Head
from kdkit.models.heads import add_head
from kdkit.models.presets import PRESETS
from kdkit.models.presets import BertConfig
from kdkit.models.presets import BilstmConfig
from kdkit.models.presets import MassConfig
from kdkit.models.room import check_room
from kdkit.models.trust import MAX_LAYERS

NOT_COUNTED = ("dropout", "tied_output")
MAY_BE_NONE = ("decoder_vocabulary_size",)
OF_SOME_FAMILIES = ("embedding_dim", "num_key_value_heads")


def student(preset_or_config, num_classes=None, **settings):
    """Builds a student with random weights.

    Args:
        preset_or_config: string, a key of `kdkit.models.PRESETS`; or a
            `kdkit.models.BertConfig`, `kdkit.models.BilstmConfig` or
            `kdkit.models.MassConfig`; or a dict of a `BertConfig`'s fields.
        num_classes: int or `None`. Width of the logits (1 for regression).
            `None` for the backbone alone. Defaults to `None`.
        **settings: fields of the configuration that replace the preset's,
            such as `vocabulary_size=1000` or `family="distil_bert"`; and
            `dtype`, the Keras dtype policy.

    Returns:
        The family's keras-hub classifier without preprocessor, such as a
        `keras_hub.models.BertTextClassifier`, whose output are logits; or its
        backbone, such as a `keras_hub.models.BertBackbone`. keras-hub has no
        classifier for ELECTRA: it gets BERT's. For a `BilstmConfig` a
        functional `keras.Model`, for a `MassConfig` a
        `kdkit.models.MassBackbone`, which classifies nothing.

    Raises:
        UsageError: (a `ValueError`) if the preset or a setting is unknown, a
            size is impossible, or the weights are more than the machine's
            memory.

    Example:

    >>> model = kdkit.models.student(
    ...     "tinybert_4_layer_en_uncased", vocabulary_size=100, num_classes=2
    ... )
    >>> model.backbone.hidden_dim
    312
    """
    dtype = settings.pop("dtype", None)
    config = student_config(preset_or_config, **settings)
    check_room(config)
    if isinstance(config, BilstmConfig):
        if num_classes is None:
            raise UsageError(
                "A BiLSTM is a whole classifier. Expected the number of its "
                "classes. Received: num_classes=None."
            )
        return build_bilstm(config, num_classes, dtype)
    if isinstance(config, MassConfig):
        if num_classes is not None:
            raise UsageError(
                "An encoder-decoder writes text and has no classes. Received: "
                f"num_classes={num_classes}. Use an encoder, such as a BERT."
            )
        # By its package: the class needs Keras, the sizes do not.
        return models.MassBackbone(**dataclasses.asdict(config), dtype=dtype)
    family = ALL_FAMILIES[config.family]
    backbone = family.backbone(**_constructor_sizes(config), dtype=dtype)
    if num_classes is None:
        return backbone
    return add_head(backbone, Head("sequence", num_classes))


def student_config(preset_or_config, **settings):
    """Returns the checked configuration that `student` builds.

    Args:
        preset_or_config: as in `student`.
        **settings: fields of the configuration that replace the preset's.

    Returns:
        `BertConfig`, `BilstmConfig` or `MassConfig`.

    Raises:
        UsageError: as in `student`, with all problems in one message.
    """
    kind, fields = _kind_and_fields(preset_or_config)
    fields |= settings
    known = {field.name: field for field in dataclasses.fields(kind)}
    problems = [
        f"unknown setting {name!r}, valid are {sorted(known)}"
        for name in sorted(set(fields) - set(known))
    ]
    problems += [
        f"{name!r} is missing"
        for name, field in known.items()
        if name not in fields and field.default is dataclasses.MISSING
    ]
    if not problems:
        config = kind(**fields)
        problems = _impossible_sizes(config)
    if problems:
        raise UsageError(f"The student cannot be built: {'; '.join(problems)}.")
    return config


def _kind_and_fields(preset_or_config):
    """The class of a configuration and its fields."""
    config = preset_or_config
    if isinstance(config, str) and config in PRESETS:
        config = PRESETS[config].config
    if isinstance(config, BertConfig | BilstmConfig | MassConfig):
        return type(config), dataclasses.asdict(config)
    if isinstance(config, Mapping):
        return BertConfig, dict(config)
    raise UsageError(
        f"Unknown student preset. Expected one of {sorted(PRESETS)}. "
        f"Received: {preset_or_config!r}."
    )


def _constructor_sizes(config):
    """The sizes as the constructor of the family's backbone names them."""
    sizes = dataclasses.asdict(config)
    return ALL_FAMILIES[sizes.pop("family")].constructor_sizes(sizes)


def _impossible_sizes(config):
    """What no encoder and no BiLSTM can be, one text each."""
    if isinstance(config, BilstmConfig):
        sizes = dataclasses.asdict(config)
        problems = _not_above_zero(sizes)
        if config.num_texts not in (1, 2):
            problems.append(
                f"num_texts must be 1 or 2, received {config.num_texts!r}"
            )
        return problems
    if isinstance(config, MassConfig):
        problems = _not_above_zero(dataclasses.asdict(config))
        return problems or _unbuildable(config)
    if config.family not in ALL_FAMILIES:
        return [
            f"family must be one of {sorted(ALL_FAMILIES)}, received "
            f"{config.family!r}"
        ]
    family = ALL_FAMILIES[config.family]
    foreign = [
        f"{name} is not of family {config.family!r}, received "
        f"{getattr(config, name)!r}"
        for name in OF_SOME_FAMILIES
        if getattr(config, name) is not None and not family.takes(name)
    ]
    problems = foreign or _not_above_zero(_constructor_sizes(config))
    return problems or _unbuildable(config)


def _unbuildable(config):
    """Heads that do not divide the width, and more layers than are loaded."""
    problems = [
        f"{name} must be at most {MAX_LAYERS}, received {depth}"
        for name, depth in dataclasses.asdict(config).items()
        if name.endswith("num_layers") and depth > MAX_LAYERS
    ]
    if config.hidden_dim % config.num_heads:
        problems.append(
            f"num_heads must divide hidden_dim, received hidden_dim="
            f"{config.hidden_dim}, num_heads={config.num_heads}"
        )
    groups = getattr(config, "num_key_value_heads", None)
    if groups and config.num_heads % groups:
        problems.append(
            f"num_key_value_heads must divide num_heads, received "
            f"num_key_value_heads={groups}, num_heads={config.num_heads}"
        )
    return problems


def _not_above_zero(sizes):
    """Sizes that are no integers above 0, and a dropout out of its range."""
    problems = [
        f"{name} must be an integer above 0, received {value!r}"
        for name, value in sizes.items()
        if name not in NOT_COUNTED
        and not (value is None and name in MAY_BE_NONE)
        and not (isinstance(value, int) and value > 0)
    ]
    if not 0 <= sizes["dropout"] < 1:
        problems.append(
            f"dropout must be in [0, 1), received {sizes['dropout']!r}"
        )
    return problems
