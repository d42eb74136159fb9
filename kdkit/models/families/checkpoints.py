"""The format of a family's Hugging Face checkpoints, as data.

`kdkit.models.hugging_face_config` reads the fields of `config.json`,
`kdkit.models.hugging_face_weights` the tensors and classifier heads, and
`kdkit.models.language_models` the language-modelling heads.
`kdkit.models.hugging_face_saving` writes checkpoints from the same data.
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
    """The names of a family's tensors, without the base model's prefix.

    Args:
        parts: dict from a layer of the backbone outside the blocks to its
            name.
        block: string. The name of a block, with the groups of `block_path`.
        block_parts: dict from a layer of a block to its name in the block.
        block_path: string. Pattern of the paths of a block's variables.
            Defaults to `transformer_layer_N/`.
        ignored: string. Pattern of tensors in blocks that are not weights.
            Defaults to none.
        joined: string or `None`. The name of a tensor that contains queries,
            keys and values side by side. Defaults to `None`.
        is_transposed: bool. Whether kernels have shape `(outputs, inputs)`.
            Defaults to `True`.
    """

    parts: Mapping[str, str]
    block: str
    block_parts: Mapping[str, str]
    block_path: str = NUMBERED
    ignored: str = r"$^"
    joined: str | None = None
    is_transposed: bool = True


@dataclasses.dataclass(frozen=True)
class MaskedLMLayout:
    """The names of the tensors of a head for masked tokens.

    Args:
        dense: string. The dense layer before the vocabulary.
        layer_norm: string. The normalization after it.
        biases: tuple of strings. Possible names of the vocabulary's bias; the
            first one in the checkpoint is read.
        decoder: string. The name of the copy of the embeddings in the head.
    """

    dense: str
    layer_norm: str
    biases: tuple[str, ...]
    decoder: str


@dataclasses.dataclass(frozen=True)
class CheckpointFormat:
    """The format of a family's Hugging Face checkpoints, read and written.

    Args:
        model_type: string. `model_type` in `config.json`.
        class_name: string. The beginning of transformers' class names, such as
            `"Bert"`.
        prefix: string. The name of the base model in models with a head.
        sizes: dict from a size of the backbone to a tuple of the names of the
            field, and transformers' default.
        dropout: tuple of the field of the dropout rate and its default.
        activation: tuple of the field of the activation and its default.
        epsilon: tuple of the field of the normalization's epsilon, `None` if
            it is fixed, and its default.
        weights: `WeightLayout`.
        masked_lm: `MaskedLMLayout` or `None`. Defaults to `None`.
        masked_lm_activation: string or `None`. The activation of the head for
            masked tokens, if it differs from the blocks' activation. Defaults
            to `None`.
        tied_logits: string or `None`. The copy of a decoder's token embeddings
            that computes its logits. Defaults to `None`.
        special_tokens: dict from the name of a special token in the tokenizer's
            files to the required token, for byte-pair and Unigram tokenizers.
        vocabulary_file: string or `None`. The Unigram model of older versions,
            next to `tokenizer.json`. Defaults to `None`.
        unknown_id: int or `None`. The id of unknown pieces in that model.
            Defaults to `None`.
        classifier: dict from the dense layers in a classifier's head to their
            names, the logits' layer last.
        positions_follow_padding: bool. Whether positions begin after the row
            of the padding token, as in RoBERTa. Defaults to `False`.
        has_one_segment: bool. Whether one segment embedding is added to every
            token. Defaults to `False`.
        same_dropouts: tuple of strings. The fields of other dropout rates,
            which are the same in keras-hub. Defaults to `()`.
    """

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
    special_tokens: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vocabulary_file: str | None = None
    unknown_id: int | None = None
    classifier: Mapping[str, str] = dataclasses.field(default_factory=dict)
    positions_follow_padding: bool = False
    has_one_segment: bool = False
    same_dropouts: tuple[str, ...] = ()

    def head_layers(self, kind: str) -> Mapping[str, str] | None:
        """Returns the dense layers in a head, with their names.

        Args:
            kind: string. The kind of a `kdkit.models.Head`.

        Returns:
            A dict with the logits' layer last, or `None` if transformers has
            no such head.
        """
        if kind == "tokens":
            return ONE_LAYER
        # Other heads for a multiple choice have a layer that kdkit's lack.
        has_same = kind == "sequence" or self.classifier == ONE_LAYER
        return self.classifier if has_same else None
