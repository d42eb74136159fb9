"""Reads the `config.json` of a Hugging Face checkpoint.

Each field is followed, rejected by name, or does not change outputs. The last
kind are dropout rates of attention and heads (keras-hub has one rate for all),
initializers, caches, labels, and token ids that the tokenizer decides. Unknown
fields are ignored, as in transformers. A missing field has transformers'
default.
"""

import dataclasses
import functools

from kdkit.errors import UsageError, shortened
from kdkit.models.block_settings import (
    ACTIVATIONS,
    SAME_ACTIVATIONS,
    BlockSettings,
)
from kdkit.models.families import ALL_FAMILIES, Family
from kdkit.models.variants import build_backbone

NEEDS_OTHER_CODE = "Use a checkpoint of a plain encoder"
# Fields with only one supported value, and the reason.
REQUIRED = {
    "is_decoder": (False, "kdkit reads it as a bidirectional encoder"),
    "add_cross_attention": (False, "there is no second input to attend to"),
    "is_encoder_decoder": (False, "kdkit reads one stack of blocks"),
    "position_embedding_type": (
        "absolute",
        "keras-hub's model has no relative positions",
    ),
    "scale_attn_weights": (True, "keras-hub's model scales attention"),
    "scale_attn_by_inverse_layer_idx": (
        False,
        "keras-hub's model scales all layers the same",
    ),
    "quantization_config": (None, "kdkit does not read quantized weights"),
    "pruned_heads": (None, "keras-hub's blocks all have the same heads"),
    "per_layer_config": (None, "keras-hub's blocks are all the same"),
}


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """A checkpoint's model, described with keras-hub's arguments."""

    family: Family
    sizes: dict
    blocks: BlockSettings
    head: BlockSettings
    num_skipped_positions: int = 0
    reads_one_segment: bool = False

    def build(self):
        """Returns the backbone with random weights."""
        return build_backbone(self.family.name, self.blocks, **self.sizes)


def is_hugging_face(config: dict) -> bool:
    """Whether a `config.json` belongs to a Hugging Face checkpoint."""
    return "registered_name" not in config and "model_type" in config


def is_convertible(config: dict) -> bool:
    """Whether a `config.json` belongs to a checkpoint that kdkit reads."""
    return checkpoint_family(config) is not None


def checkpoint_family(config: dict) -> Family | None:
    """Returns the family for a checkpoint's `config.json`."""
    if not is_hugging_face(config):
        return None
    kind = str(config["model_type"])
    for family in ALL_FAMILIES.values():
        if family.checkpoints and family.checkpoints.model_type == kind:
            return family
    return None


def read_checkpoint_config(config: dict, where) -> CheckpointConfig:
    """Reads the fields of a checkpoint's `config.json`."""
    family = checkpoint_family(config)
    form = family.checkpoints
    refuse = functools.partial(_refuse, where)
    for name, (expected, why) in REQUIRED.items():
        value = config.get(name)
        if name == "is_decoder" and family.is_decoder:
            continue
        if value not in (None, {}, expected):
            wanted = "none" if expected is None else repr(expected)
            refuse(name, value, wanted, f"{why}. {NEEDS_OTHER_CODE}")
    fields = {}
    sizes = {}
    for size, (names, default) in form.sizes.items():
        fields[size], value = _field(config, names, default)
        if value is None and size == "intermediate_dim":
            value = 4 * sizes["hidden_dim"]
        if type(value) is not int or value < 1:
            refuse(fields[size], value, "a whole number above 0")
        sizes[size] = value
    for size, divisor in (
        ("hidden_dim", "num_heads"),
        ("num_layers", "num_groups"),
    ):
        if sizes[size] % sizes.get(divisor, 1):
            refuse(
                fields[size],
                sizes[size],
                f"a multiple of {fields[divisor]}, {sizes[divisor]}",
            )
    skipped = 0
    if form.positions_follow_padding:
        skipped = _pad_token_id(config, refuse) + 1
        name = fields["max_sequence_length"]
        if sizes["max_sequence_length"] <= skipped:
            refuse(name, sizes["max_sequence_length"], f"more than {skipped}")
        sizes["max_sequence_length"] -= skipped
    if "num_segments" in sizes:
        # Pairs need two segments; the second row is a copy of the only one.
        sizes["num_segments"] = max(sizes["num_segments"], 2)
    sizes["dropout"] = _fraction(config, *form.dropout, refuse)
    activation = _activation(config, *form.activation, refuse)
    epsilon = _fraction(config, *form.epsilon, refuse)
    if not epsilon:
        refuse(form.epsilon[0], epsilon, "a number above 0")
    return CheckpointConfig(
        family,
        sizes,
        BlockSettings(activation, epsilon),
        BlockSettings(form.masked_lm_activation or activation, epsilon),
        skipped,
    )


def expected_pad_id(config: dict) -> int | None:
    """Returns the id that padding must have, `None` if any id is possible."""
    form = checkpoint_family(config).checkpoints
    if not form.positions_follow_padding:
        return None
    return config.get("pad_token_id", 1)


def _field(config, names, default):
    """Returns the name and the value of the first field that is present."""
    for name in names:
        if name in config:
            return name, config[name]
    return names[0], default


def _pad_token_id(config, refuse):
    pad_id = config.get("pad_token_id", 1)
    if type(pad_id) is not int or pad_id < 0:
        refuse(
            "pad_token_id",
            pad_id,
            "a whole number of at least 0, because positions start after it",
        )
    return pad_id


def _activation(config, name, default, refuse):
    value = config.get(name, default)
    if isinstance(value, str):
        value = SAME_ACTIVATIONS.get(value, value)
        if value in ACTIVATIONS:
            return value
    known = sorted([*ACTIVATIONS, *SAME_ACTIVATIONS])
    why = f"kdkit supports no other. {NEEDS_OTHER_CODE} with one of these"
    return refuse(name, value, f"one of {', '.join(known)}", why)


def _fraction(config, name, default, refuse):
    value = default if name is None else config.get(name, default)
    if type(value) not in (int, float) or not 0 <= value < 1:
        refuse(name, value, "a number of at least 0 and below 1")
    return float(value)


def _refuse(where, name, value, expected, why=""):
    fix = why or "Correct it, or restore the checkpoint from a copy"
    raise UsageError(
        f"{where}: {name!r} is {shortened(value)}. Expected {expected}"
        f"{': ' if why else '. '}{fix}."
    )
