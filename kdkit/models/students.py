"""Building students from a preset or a configuration."""

import dataclasses
from collections.abc import Mapping

from kdkit.errors import UsageError
from kdkit.families import FAMILIES
from kdkit.models.heads import Head
from kdkit.models.heads import add_head
from kdkit.models.presets import PRESETS
from kdkit.models.presets import BertConfig


def student(preset_or_config, num_classes=None, **settings):
    """Builds a student with random weights.

    Args:
        preset_or_config: string, a key of `kdkit.models.PRESETS`; or a
            `kdkit.models.BertConfig`; or a dict of its fields.
        num_classes: int or `None`. Width of the logits (1 for regression).
            `None` for the encoder alone. Defaults to `None`.
        **settings: fields of `BertConfig` that replace the preset's, such as
            `vocabulary_size=1000` or `family="distil_bert"`; and `dtype`, the
            Keras dtype policy.

    Returns:
        The family's keras-hub classifier without preprocessor, such as a
        `keras_hub.models.BertTextClassifier`, whose output are logits; or its
        backbone, such as a `keras_hub.models.BertBackbone`. keras-hub has no
        classifier for ELECTRA: it gets BERT's.

    Raises:
        UsageError: (a `ValueError`) if the preset or a setting is unknown, or
            a size is impossible.

    Example:

    >>> model = kdkit.models.student(
    ...     "tinybert_4_layer_en_uncased", vocabulary_size=100, num_classes=2
    ... )
    >>> model.backbone.hidden_dim
    312
    """
    dtype = settings.pop("dtype", None)
    config = student_config(preset_or_config, **settings)
    family = FAMILIES[config.family]
    backbone = family.backbone(**_constructor_sizes(config), dtype=dtype)
    if num_classes is None:
        return backbone
    return add_head(backbone, Head("sequence", num_classes))


def student_config(preset_or_config, **settings) -> BertConfig:
    """Returns the checked `BertConfig` that `student` builds.

    Args:
        preset_or_config: as in `student`.
        **settings: fields of `BertConfig` that replace the preset's.

    Raises:
        UsageError: as in `student`, with all problems in one message.
    """
    if isinstance(preset_or_config, BertConfig):
        fields = dataclasses.asdict(preset_or_config)
    elif isinstance(preset_or_config, Mapping):
        fields = dict(preset_or_config)
    elif preset_or_config in PRESETS:
        fields = dataclasses.asdict(PRESETS[preset_or_config].config)
    else:
        raise UsageError(
            f"Unknown student preset. Expected one of {sorted(PRESETS)}. "
            f"Received: {preset_or_config!r}."
        )
    fields |= settings
    known = {field.name: field for field in dataclasses.fields(BertConfig)}
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
        config = BertConfig(**fields)
        problems = _impossible_sizes(config)
    if problems:
        raise UsageError(f"The student cannot be built: {'; '.join(problems)}.")
    return config


def _constructor_sizes(config):
    """The sizes as the constructor of the family's backbone names them."""
    family = FAMILIES[config.family]
    sizes = dataclasses.asdict(config)
    del sizes["family"]
    if not family.has_embedding_dim:
        del sizes["embedding_dim"]
    elif config.embedding_dim is None:
        sizes["embedding_dim"] = config.hidden_dim
    return {
        family.renamed_sizes.get(name, name): size
        for name, size in sizes.items()
    }


def _impossible_sizes(config):
    """What no encoder can be, one text each."""
    if config.family not in FAMILIES:
        return [
            f"family must be one of {sorted(FAMILIES)}, received "
            f"{config.family!r}"
        ]
    family = FAMILIES[config.family]
    if config.embedding_dim is not None and not family.has_embedding_dim:
        return [
            f"embedding_dim is not of family {config.family!r}, whose "
            f"embeddings are as wide as its states, received "
            f"{config.embedding_dim!r}"
        ]
    problems = [
        f"{name} must be an integer above 0, received {value!r}"
        for name, value in _constructor_sizes(config).items()
        if name != "dropout" and not (isinstance(value, int) and value > 0)
    ]
    if not 0 <= config.dropout < 1:
        problems.append(
            f"dropout must be in [0, 1), received {config.dropout!r}"
        )
    if not problems and config.hidden_dim % config.num_heads:
        problems.append(
            f"num_heads must divide hidden_dim, received hidden_dim="
            f"{config.hidden_dim}, num_heads={config.num_heads}"
        )
    return problems
