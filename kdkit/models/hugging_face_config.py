"""What `config.json` of a Hugging Face checkpoint asks for.

Each field is followed, refused by name, or changes no output: dropout rates of
attention and of heads (keras-hub has one rate for all), initializers, caches,
labels, and the ids of tokens where the tokenizer decides. Fields that are not
known are passed over, as transformers does. A field that is absent has the
value that transformers takes.
"""

import dataclasses
import functools

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.families import ALL_FAMILIES
from kdkit.families import Family
from kdkit.models.block_settings import ACTIVATIONS
from kdkit.models.block_settings import SAME_ACTIVATIONS
from kdkit.models.block_settings import BlockSettings
from kdkit.models.variants import build_backbone

BERT_SIZES = {
    "vocabulary_size": (("vocab_size",), 30522),
    "num_layers": (("num_hidden_layers",), 12),
    "num_heads": (("num_attention_heads",), 12),
    "hidden_dim": (("hidden_size",), 768),
    "intermediate_dim": (("intermediate_size",), 3072),
    "max_sequence_length": (("max_position_embeddings",), 512),
}
# Of each type: keras-hub's sizes, to the field's names and transformers'
# default.
SIZES = {
    "bert": {**BERT_SIZES, "num_segments": (("type_vocab_size",), 2)},
    "distilbert": {
        "vocabulary_size": (("vocab_size",), 30522),
        "num_layers": (("n_layers", "num_hidden_layers"), 6),
        "num_heads": (("n_heads", "num_attention_heads"), 12),
        "hidden_dim": (("dim", "hidden_size"), 768),
        "intermediate_dim": (("hidden_dim",), 3072),
        "max_sequence_length": (("max_position_embeddings",), 512),
    },
    "roberta": {**BERT_SIZES, "vocabulary_size": (("vocab_size",), 50265)},
    "xlm-roberta": BERT_SIZES,
    "albert": {
        **BERT_SIZES,
        "vocabulary_size": (("vocab_size",), 30000),
        "embedding_dim": (("embedding_size",), 128),
        "num_heads": (("num_attention_heads",), 64),
        "hidden_dim": (("hidden_size",), 4096),
        "intermediate_dim": (("intermediate_size",), 16384),
        "num_groups": (("num_hidden_groups",), 1),
        "num_inner_repetitions": (("inner_group_num",), 1),
        "num_segments": (("type_vocab_size",), 2),
    },
    "gpt2": {
        "vocabulary_size": (("vocab_size",), 50257),
        "num_layers": (("n_layer", "num_hidden_layers"), 12),
        "num_heads": (("n_head", "num_attention_heads"), 12),
        "hidden_dim": (("n_embd", "hidden_size"), 768),
        "intermediate_dim": (("n_inner",), None),
        "max_sequence_length": (
            ("n_positions", "max_position_embeddings"),
            1024,
        ),
    },
}
DROPOUT = {
    "bert": ("hidden_dropout_prob", 0.1),
    "distilbert": ("dropout", 0.1),
    "roberta": ("hidden_dropout_prob", 0.1),
    "xlm-roberta": ("hidden_dropout_prob", 0.1),
    "albert": ("hidden_dropout_prob", 0.0),
    "gpt2": ("resid_pdrop", 0.1),
}
ACTIVATION = {
    "bert": ("hidden_act", "gelu"),
    "distilbert": ("activation", "gelu"),
    "roberta": ("hidden_act", "gelu"),
    "xlm-roberta": ("hidden_act", "gelu"),
    "albert": ("hidden_act", "gelu_new"),
    "gpt2": ("activation_function", "gelu_new"),
}
EPSILON = {
    "bert": ("layer_norm_eps", 1e-12),
    "distilbert": (None, 1e-12),  # fixed in transformers
    "roberta": ("layer_norm_eps", 1e-12),
    "xlm-roberta": ("layer_norm_eps", 1e-12),
    "albert": ("layer_norm_eps", 1e-12),
    "gpt2": ("layer_norm_epsilon", 1e-5),
}
# Their positions begin behind the row of the padding token.
OFFSET_POSITIONS = ("roberta", "xlm-roberta")
# Their heads for masked tokens compute GELU, whatever `hidden_act` is.
GELU_HEADS = ("roberta", "xlm-roberta")
NEEDS_OTHER_CODE = "Use a checkpoint of a plain encoder"
# What keras-hub's models are not: the only value that is followed, and why.
REQUIRED = {
    "is_decoder": (False, "kdkit reads it as an encoder, both ways"),
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
    "quantization_config": (None, "the weights are no plain numbers"),
    "pruned_heads": (None, "keras-hub's blocks all have the same heads"),
    "per_layer_config": (None, "keras-hub's blocks are all the same"),
}


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """A checkpoint's model in keras-hub's terms.

    Args:
        family: `kdkit.families.Family`.
        sizes: dict of arguments of the family's backbone.
        blocks: `BlockSettings` of the blocks.
        head: `BlockSettings` of the head for masked tokens, if it has one.
        num_skipped_positions: int. Rows of the position embeddings before
            that of the first token. Defaults to `0`.
        reads_one_segment: bool. Whether its tokenizer gives both texts of a
            pair segment 0, so that all segments have the first row of the
            embeddings. Defaults to `False`.
    """

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
    """Whether a `config.json` is of a Hugging Face checkpoint."""
    return "registered_name" not in config and "model_type" in config


def is_convertible(config: dict) -> bool:
    """Whether a `config.json` is of a checkpoint that kdkit reads."""
    return is_hugging_face(config) and _type_of(config) in SIZES


def read_checkpoint_config(config: dict, where) -> CheckpointConfig:
    """Reads the fields of a checkpoint's `config.json`.

    Args:
        config: dict, of which `is_convertible` holds.
        where: path or string of the file, for the error.

    Returns:
        `CheckpointConfig`.

    Raises:
        UsageError: (a `ValueError`) if a field asks for what keras-hub's
            models do not compute, or has an impossible value.
    """
    kind = _type_of(config)
    refuse = functools.partial(_refuse, where)
    for name, (expected, why) in REQUIRED.items():
        value = config.get(name)
        if name == "is_decoder" and kind == "gpt2":
            continue
        if value not in (None, {}, expected):
            wanted = "none" if expected is None else repr(expected)
            refuse(name, value, wanted, f"{why}. {NEEDS_OTHER_CODE}")
    (family,) = (
        one for one in ALL_FAMILIES.values() if one.hugging_face_type == kind
    )
    fields = {}
    sizes = {}
    for size, (names, default) in SIZES[kind].items():
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
    if kind in OFFSET_POSITIONS:
        skipped = _pad_token_id(config, refuse) + 1
        name = fields["max_sequence_length"]
        if sizes["max_sequence_length"] <= skipped:
            refuse(name, sizes["max_sequence_length"], f"more than {skipped}")
        sizes["max_sequence_length"] -= skipped
    if "num_segments" in sizes:
        # Pairs have two; a second row is a copy of the only one.
        sizes["num_segments"] = max(sizes["num_segments"], 2)
    sizes["dropout"] = _fraction(config, *DROPOUT[kind], refuse)
    activation = _activation(config, *ACTIVATION[kind], refuse)
    epsilon = _fraction(config, *EPSILON[kind], refuse)
    if not epsilon:
        refuse(EPSILON[kind][0], epsilon, "a number above 0")
    return CheckpointConfig(
        family,
        sizes,
        BlockSettings(activation, epsilon),
        BlockSettings("gelu" if kind in GELU_HEADS else activation, epsilon),
        skipped,
    )


def expected_pad_id(config: dict) -> int | None:
    """Returns the id that padding must have, `None` where any does.

    RoBERTa's positions are counted over the tokens that are no padding.

    Args:
        config: dict, of which `is_convertible` holds.
    """
    kind = _type_of(config)
    return config.get("pad_token_id", 1) if kind in OFFSET_POSITIONS else None


def _type_of(config):
    return str(config["model_type"])


def _field(config, names, default):
    """The name of a field that is there, and its value."""
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
            "a whole number of at least 0, since positions are counted from it",
        )
    return pad_id


def _activation(config, name, default, refuse):
    value = config.get(name, default)
    if isinstance(value, str):
        value = SAME_ACTIVATIONS.get(value, value)
        if value in ACTIVATIONS:
            return value
    known = sorted([*ACTIVATIONS, *SAME_ACTIVATIONS])
    why = f"kdkit computes no other. {NEEDS_OTHER_CODE} with one of these"
    return refuse(name, value, f"one of {', '.join(known)}", why)


def _fraction(config, name, default, refuse):
    value = default if name is None else config.get(name, default)
    if type(value) not in (int, float) or not 0 <= value < 1:
        refuse(name, value, "a number from 0 to below 1")
    return float(value)


def _refuse(where, name, value, expected, why=""):
    fix = why or "Correct it, or restore the checkpoint from a copy"
    raise UsageError(
        f"{where}: {name!r} is {shortened(value)}. Expected {expected}"
        f"{': ' if why else '. '}{fix}."
    )
