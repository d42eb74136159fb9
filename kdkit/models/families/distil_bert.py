"""DistilBERT (Sanh et al., 2019): no segments and no pooler."""

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

# In keras-hub one layer embeds tokens and positions.
PARTS = {
    "token_embedding": "token_embedding",
    "position_embedding": "embeddings.position_embedding",
    "embeddings_layer_norm": "embeddings_layer_norm",
}


@register_family
class DistilBert(Family):
    """`keras_hub.models.DistilBertBackbone`."""

    name = "distil_bert"
    title = "DistilBERT"
    backbone = KerasHubClass("models.DistilBertBackbone")
    classifier = KerasHubClass("models.DistilBertTextClassifier")
    tokenizer = KerasHubClass("tokenizers.DistilBertTokenizer")
    masked_lm = KerasHubClass("models.DistilBertMaskedLM")
    parts = PARTS
    block_settings = BlockSettings("gelu", 1e-12)
    head_settings = BlockSettings("gelu", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="distilbert",
        class_name="DistilBert",
        prefix="distilbert",
        sizes={
            "vocabulary_size": (("vocab_size",), 30522),
            "num_layers": (("n_layers", "num_hidden_layers"), 6),
            "num_heads": (("n_heads", "num_attention_heads"), 12),
            "hidden_dim": (("dim", "hidden_size"), 768),
            "intermediate_dim": (("hidden_dim",), 3072),
            "max_sequence_length": (("max_position_embeddings",), 512),
        },
        dropout=("dropout", 0.1),
        activation=("activation", "gelu"),
        epsilon=(None, 1e-12),
        weights=WeightLayout(
            BERT_EMBEDDINGS,
            r"transformer.layer.\1.",
            {
                "self_attention_layer/query": "attention.q_lin",
                "self_attention_layer/key": "attention.k_lin",
                "self_attention_layer/value": "attention.v_lin",
                "self_attention_layer/attention_output": "attention.out_lin",
                "self_attention_layer_norm": "sa_layer_norm",
                "feedforward_intermediate_dense": "ffn.lin1",
                "feedforward_output_dense": "ffn.lin2",
                "feedforward_layer_norm": "output_layer_norm",
            },
        ),
        masked_lm=MaskedLMLayout(
            dense="vocab_transform",
            layer_norm="vocab_layer_norm",
            biases=("vocab_projector.bias",),
            decoder="vocab_projector.weight",
        ),
        classifier={
            "pooled_dense": "pre_classifier",
            "logits": "classifier",
        },
        same_dropouts=("attention_dropout", "seq_classif_dropout"),
    )
