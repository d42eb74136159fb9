"""The format of a family's Hugging Face checkpoints, as data.

`kdkit.models.hugging_face` reads checkpoints, and
`kdkit.models.hugging_face_saving` writes them from the same data. The defaults
are BERT's.
"""

import dataclasses
from collections.abc import Mapping

# From a size in keras-hub to its field, and transformers' default. Other
# families' configs may have the field's name here, too.
BERT_SIZES = {
    "vocabulary_size": ("vocab_size", 30522),
    "num_layers": ("num_hidden_layers", 12),
    "num_heads": ("num_attention_heads", 12),
    "hidden_dim": ("hidden_size", 768),
    "intermediate_dim": ("intermediate_size", 3072),
    "max_sequence_length": ("max_position_embeddings", 512),
}
BERT_EMBEDDINGS = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embeddings_layer_norm": "embeddings.LayerNorm",
}
# The end of the classes in transformers, by the kind of head.
HEAD_CLASSES = {
    "sequence": "ForSequenceClassification",
    "multiple_choice": "ForMultipleChoice",
    "tokens": "ForTokenClassification",
}
ONE_LAYER = {"logits": "classifier"}  # a head that is the same in all families


@dataclasses.dataclass(frozen=True)
class WeightLayout:
    """The names of a family's tensors, without the base model's prefix.

    Args:
        parts: dict from keras-hub's layers outside the blocks to modules.
        block: string. A block's prefix; `\\1` is its number.
        block_parts: dict from the layers of a block to its modules.
        block_path: string. Pattern of a block's path in keras-hub.
        ignored: string. Pattern of tensors that hold no weights.
        joined: string. The module whose tensor is queries, keys and values.
        is_transposed: bool. Whether matrices are `(outputs, inputs)`.
    """

    parts: Mapping[str, str]
    block: str
    block_parts: Mapping[str, str]
    block_path: str = r"transformer_layer_(\d+)/"
    ignored: str = r"$^"
    joined: str | None = None
    is_transposed: bool = True


BERT_WEIGHTS = WeightLayout(
    {**BERT_EMBEDDINGS, "pooled_dense": "pooler.dense"},
    r"encoder.layer.\1.",
    {
        "self_attention_layer/query": "attention.self.query",
        "self_attention_layer/key": "attention.self.key",
        "self_attention_layer/value": "attention.self.value",
        "self_attention_layer/attention_output": "attention.output.dense",
        "self_attention_layer_norm": "attention.output.LayerNorm",
        "feedforward_intermediate_dense": "intermediate.dense",
        "feedforward_output_dense": "output.dense",
        "feedforward_layer_norm": "output.LayerNorm",
    },
)


@dataclasses.dataclass(frozen=True)
class MaskedLMLayout:
    """The names of the layers in a head for masked tokens."""

    dense: str
    layer_norm: str
    decoder: str

    @property
    def biases(self) -> tuple[str, str]:
        """The names of the bias per token, the usual one first."""
        usual = self.decoder.removesuffix(".decoder")
        return f"{usual}.bias", f"{self.decoder}.bias"


@dataclasses.dataclass(frozen=True)
class CheckpointFormat:
    """The format of a family's Hugging Face checkpoints, read and written.

    Args:
        model_type: string, as in `config.json`.
        prefix: string. The base model's module in a model with a head.
        sizes: dict from keras-hub's size to its field in `config.json` and the
            default of transformers; `None` follows from other sizes.
        weights: `WeightLayout`.
        dropout: tuple of field and default.
        same_dropouts: fields that have to equal `dropout`.
        activation: tuple of field and default.
        epsilon: tuple of field and default; the field is `None` without one.
        masked_lm: `MaskedLMLayout` or `None`.
        masked_lm_activation: string. That of the head, if not the encoder's.
        tied_logits: string. The tensor of a decoder's logits, which has to
            equal the token embeddings where keras-hub ties them.
        language_model: string. The end of the class with such a head.
        classifier: dict from a head's layers to modules.
        positions_follow_padding: bool, as in RoBERTa.
        has_one_segment: bool. Whether there is a table of a single segment.
    """

    model_type: str
    prefix: str
    sizes: Mapping[str, tuple[str, int | None]]
    weights: WeightLayout = BERT_WEIGHTS
    dropout: tuple[str, float] = ("hidden_dropout_prob", 0.1)
    same_dropouts: tuple[str, ...] = ("attention_probs_dropout_prob",)
    activation: tuple[str, str] = ("hidden_act", "gelu")
    epsilon: tuple[str | None, float] = ("layer_norm_eps", 1e-12)
    masked_lm: MaskedLMLayout | None = None
    masked_lm_activation: str | None = None
    tied_logits: str | None = None
    language_model: str = "LMHeadModel"
    classifier: Mapping[str, str] = dataclasses.field(default_factory=dict)
    positions_follow_padding: bool = False
    has_one_segment: bool = False

    def head_layers(self, kind: str) -> Mapping[str, str] | None:
        """Returns the dense layers in a head, with their names."""
        if kind == "tokens":
            return ONE_LAYER
        # Other heads for a multiple choice have a layer that kdkit's lack.
        has_same = kind == "sequence" or self.classifier == ONE_LAYER
        return self.classifier if has_same else None
