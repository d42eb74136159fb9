"""The format of a family's Hugging Face checkpoints, as data.

`kdkit.models.hugging_face` reads checkpoints, and
`kdkit.models.hugging_face_saving` writes them from the same data.
"""

import dataclasses
from collections.abc import Mapping

NUMBERED = r"transformer_layer_(\d+)/"
# Most encoders' sizes in keras-hub, with the names of the field and
# transformers' default.
BERT_SIZES = {
    "vocabulary_size": (("vocab_size",), 30522),
    "num_layers": (("num_hidden_layers",), 12),
    "num_heads": (("num_attention_heads",), 12),
    "hidden_dim": (("hidden_size",), 768),
    "intermediate_dim": (("intermediate_size",), 3072),
    "max_sequence_length": (("max_position_embeddings",), 512),
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
    """The names of a family's tensors, without the base model's prefix."""

    parts: Mapping[str, str]
    block: str
    block_parts: Mapping[str, str]
    block_path: str = NUMBERED
    ignored: str = r"$^"
    joined: str | None = None
    is_transposed: bool = True


@dataclasses.dataclass(frozen=True)
class MaskedLMLayout:
    """The names of the tensors of a head for masked tokens."""

    dense: str
    layer_norm: str
    biases: tuple[str, ...]
    decoder: str


@dataclasses.dataclass(frozen=True)
class CheckpointFormat:
    """The format of a family's Hugging Face checkpoints, read and written."""

    model_type: str
    class_name: str
    prefix: str
    sizes: Mapping[str, tuple[tuple[str, ...], int | None]]
    dropout: tuple[str, float]
    activation: tuple[str, str]
    epsilon: tuple[str | None, float]
    weights: WeightLayout
    masked_lm: MaskedLMLayout | None = None
    masked_lm_activation: str | None = None
    tied_logits: str | None = None
    language_model: str = "LMHeadModel"
    classifier: Mapping[str, str] = dataclasses.field(default_factory=dict)
    positions_follow_padding: bool = False
    has_one_segment: bool = False
    same_dropouts: tuple[str, ...] = ()

    def head_layers(self, kind: str) -> Mapping[str, str] | None:
        """Returns the dense layers in a head, with their names."""
        if kind == "tokens":
            return ONE_LAYER
        # Other heads for a multiple choice have a layer that kdkit's lack.
        has_same = kind == "sequence" or self.classifier == ONE_LAYER
        return self.classifier if has_same else None
