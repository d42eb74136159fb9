"""Reads the `config.json` of a Hugging Face checkpoint.

Each field is followed, rejected by name, or does not change outputs. The last
kind are dropout rates of attention and heads (keras-hub has one rate for all),
initializers, caches, labels, and token ids that the tokenizer decides. Unknown
fields are ignored, as in transformers. A missing field has transformers'
default.
"""

import dataclasses

from kdkit.errors import UsageError, unknown
from kdkit.models.families import ALL_FAMILIES, BlockSettings, Family
from kdkit.models.variants import build

# The supported ones, by Hugging Face's names. Except for "gelu_new" these are
# also Keras' names. The tanh forms of GELU differ only by rounding.
ACTIVATIONS = (
    "gelu",
    "gelu_new",
    "relu",
    "relu6",
    "silu",
    "tanh",
    "sigmoid",
    "linear",
    "mish",
)
SAME_ACTIVATIONS = {
    "gelu_python": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python_tanh": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}
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
        own = self.family.block_settings
        return build(self.family.backbone, own, self.blocks, **self.sizes)


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
    for name, expected in REQUIRED.items():
        value = config.get(name)
        if name == "is_decoder" and family.is_decoder:
            continue
        if value not in (None, {}, expected):
            raise UsageError(
                f"{where}: {name!r} is {value!r}. Expected {expected!r}, which "
                "keras-hub's model computes."
            )
    sizes = {
        size: _field(config, names, default)
        for size, (names, default) in form.sizes.items()
    }
    if sizes["intermediate_dim"] is None:
        sizes["intermediate_dim"] = 4 * sizes["hidden_dim"]
    skipped = 0
    if form.positions_follow_padding:
        skipped = config.get("pad_token_id", 1) + 1
        sizes["max_sequence_length"] -= skipped
    if "num_segments" in sizes:
        # Pairs need two segments; the second row is a copy of the only one.
        sizes["num_segments"] = max(sizes["num_segments"], 2)
    sizes["dropout"] = float(config.get(*form.dropout))
    activation = _activation(config, *form.activation)
    epsilon = float(config.get(*form.epsilon))
    return CheckpointConfig(
        family,
        sizes,
        BlockSettings(activation, epsilon),
        BlockSettings(form.masked_lm_activation or activation, epsilon),
        skipped,
    )


def _field(config, names, default):
    """Returns the value of the first field that is present."""
    for name in names:
        if name in config:
            return config[name]
    return default


def _activation(config, name, default):
    value = config.get(name, default)
    value = SAME_ACTIVATIONS.get(value, value)
    if value not in ACTIVATIONS:
        raise unknown(name, value, [*ACTIVATIONS, *SAME_ACTIVATIONS])
    return value
