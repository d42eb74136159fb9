"""ALBERT (Lan et al., 2019): the calls of a block share its weights."""

from kdkit.models.families.bert import PARTS, SIZES
from kdkit.models.families.checkpoints import (
    BERT_EMBEDDINGS,
    CheckpointFormat,
    MaskedLMLayout,
    WeightLayout,
)
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    KerasHubClass,
    register_family,
)


@register_family
class Albert(Family):
    """`keras_hub.models.AlbertBackbone`."""

    name = "albert"
    title = "ALBERT"
    backbone = KerasHubClass("models.AlbertBackbone")
    classifier = KerasHubClass("models.AlbertTextClassifier")
    tokenizer = KerasHubClass("tokenizers.AlbertTokenizer")
    masked_lm = KerasHubClass("models.AlbertMaskedLM")
    parts = {**PARTS, "embeddings_projection": "embeddings_projection"}
    size_names = {"num_key_value_heads": None}
    block_settings = BlockSettings("gelu_new", 1e-12)
    head_settings = BlockSettings("gelu_new", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="albert",
        class_name="Albert",
        prefix="albert",
        sizes={
            **SIZES,
            "vocabulary_size": (("vocab_size",), 30000),
            "embedding_dim": (("embedding_size",), 128),
            "num_heads": (("num_attention_heads",), 64),
            "hidden_dim": (("hidden_size",), 4096),
            "intermediate_dim": (("intermediate_size",), 16384),
            "num_groups": (("num_hidden_groups",), 1),
            "num_inner_repetitions": (("inner_group_num",), 1),
        },
        dropout=("hidden_dropout_prob", 0.0),
        activation=("hidden_act", "gelu_new"),
        epsilon=("layer_norm_eps", 1e-12),
        weights=WeightLayout(
            {
                **BERT_EMBEDDINGS,
                "embedding_projection": "encoder.embedding_hidden_mapping_in",
                "pooled_dense": "pooler",
            },
            r"encoder.albert_layer_groups.\1.albert_layers.\2.",
            {
                "self_attention_layer/query": "attention.query",
                "self_attention_layer/key": "attention.key",
                "self_attention_layer/value": "attention.value",
                "self_attention_layer/attention_output": "attention.dense",
                "self_attention_layer_norm": "attention.LayerNorm",
                "feedforward_intermediate_dense": "ffn",
                "feedforward_output_dense": "ffn_output",
                "feedforward_layer_norm": "full_layer_layer_norm",
            },
            block_path=r"group_(\d+)_inner_layer_(\d+)/",
        ),
        masked_lm=MaskedLMLayout(
            dense="predictions.dense",
            layer_norm="predictions.LayerNorm",
            biases=("predictions.bias", "predictions.decoder.bias"),
            decoder="predictions.decoder.weight",
        ),
        special_tokens={
            "cls": "[CLS]",
            "sep": "[SEP]",
            "pad": "<pad>",
            "mask": "[MASK]",
            "unk": "<unk>",
        },
        vocabulary_file="spiece.model",
        unknown_id=1,
        classifier={"logits": "classifier"},
        same_dropouts=(
            "attention_probs_dropout_prob",
            "classifier_dropout_prob",
        ),
    )

    def blocks(self, backbone):
        calls_per_group = backbone.num_layers // backbone.num_groups
        return tuple(
            block
            for group in backbone.transformer_layers
            for _ in range(calls_per_group)
            for block in group
        )

    def num_stored_blocks(self, sizes):
        return 1
