"""Encoders: BERT, and those that differ from it by tables."""

import dataclasses

from kdkit.models.families.checkpoints import (
    BERT_EMBEDDINGS,
    BERT_SIZES,
    ONE_LAYER,
    CheckpointFormat,
    MaskedLMLayout,
    WeightLayout,
)
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    register_family,
)
from kdkit.taps.names import ATTENTION_TAPS, VECTOR_TAPS

BERT_PARTS = {
    name: name
    for name in (
        "token_embedding",
        "position_embedding",
        "segment_embedding",
        "embeddings_layer_norm",
        "embeddings_projection",  # in ALBERT and ELECTRA
        "pooled_dense",
    )
}
# In keras-hub's DistilBERT and RoBERTa one layer embeds tokens and positions.
JOINED_PARTS = {
    "token_embedding": "token_embedding",
    "position_embedding": "embeddings.position_embedding",
    "embeddings_layer_norm": "embeddings_layer_norm",
}
SEGMENTS = {"num_segments": ("type_vocab_size", 2)}


@register_family
class Bert(Family):
    """BERT (Devlin et al., 2018)."""

    name = "bert"
    title = "BERT"
    class_name = "Bert"
    parts = BERT_PARTS
    block_settings = BlockSettings("gelu_new", 1e-12)
    head_settings = BlockSettings("gelu", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="bert",
        prefix="bert",
        sizes={**BERT_SIZES, **SEGMENTS},
        masked_lm=MaskedLMLayout(
            dense="cls.predictions.transform.dense",
            layer_norm="cls.predictions.transform.LayerNorm",
            decoder="cls.predictions.decoder",
        ),
        classifier=ONE_LAYER,
    )


@register_family
class DistilBert(Family):
    """DistilBERT (Sanh et al., 2019): no segments and no pooler."""

    name = "distil_bert"
    title = "DistilBERT"
    class_name = "DistilBert"
    parts = JOINED_PARTS
    block_settings = BlockSettings("gelu", 1e-12)
    head_settings = BlockSettings("gelu", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="distilbert",
        prefix="distilbert",
        sizes={
            **BERT_SIZES,
            "num_layers": ("n_layers", 6),
            "num_heads": ("n_heads", 12),
            "hidden_dim": ("dim", 768),
            "intermediate_dim": ("hidden_dim", 3072),
        },
        dropout=("dropout", 0.1),
        same_dropouts=("attention_dropout", "seq_classif_dropout"),
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
            decoder="vocab_projector",
        ),
        classifier={"pooled_dense": "pre_classifier", **ONE_LAYER},
    )


@register_family
class Roberta(Family):
    """RoBERTa (Liu et al., 2019)."""

    name = "roberta"
    title = "RoBERTa"
    class_name = "Roberta"
    parts = JOINED_PARTS
    num_separators = 2
    block_settings = BlockSettings("gelu", 1e-5)
    head_settings = BlockSettings("gelu", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="roberta",
        prefix="roberta",
        sizes={**BERT_SIZES, "vocabulary_size": ("vocab_size", 50265)},
        masked_lm=MaskedLMLayout(
            dense="lm_head.dense",
            layer_norm="lm_head.layer_norm",
            decoder="lm_head.decoder",
        ),
        masked_lm_activation="gelu",
        classifier={
            "pooled_dense": "classifier.dense",
            "logits": "classifier.out_proj",
        },
        positions_follow_padding=True,
        has_one_segment=True,
    )


@register_family
class XlmRoberta(Roberta):
    """XLM-RoBERTa (Conneau et al., 2019): a multilingual vocabulary."""

    name = "xlm_roberta"
    title = "XLM-RoBERTa"
    class_name = "XLMRoberta"
    checkpoints = dataclasses.replace(
        Roberta.checkpoints, model_type="xlm-roberta", sizes=BERT_SIZES
    )


@register_family
class Albert(Family):
    """ALBERT (Lan et al., 2019): the calls of a block share its weights."""

    name = "albert"
    title = "ALBERT"
    class_name = "Albert"
    parts = BERT_PARTS
    size_names = {"num_key_value_heads": None}
    block_settings = BlockSettings("gelu_new", 1e-12)
    head_settings = BlockSettings("gelu_new", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="albert",
        prefix="albert",
        sizes={
            **BERT_SIZES,
            **SEGMENTS,
            "vocabulary_size": ("vocab_size", 30000),
            "embedding_dim": ("embedding_size", 128),
            "num_heads": ("num_attention_heads", 64),
            "hidden_dim": ("hidden_size", 4096),
            "intermediate_dim": ("intermediate_size", 16384),
            "num_groups": ("num_hidden_groups", 1),
            "num_inner_repetitions": ("inner_group_num", 1),
        },
        dropout=("hidden_dropout_prob", 0.0),
        same_dropouts=(
            "attention_probs_dropout_prob",
            "classifier_dropout_prob",
        ),
        activation=("hidden_act", "gelu_new"),
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
            decoder="predictions.decoder",
        ),
        classifier=ONE_LAYER,
    )

    def blocks(self, backbone):
        calls_per_group = backbone.num_layers // backbone.num_groups
        return tuple(
            block
            for group in backbone.transformer_layers
            for _ in range(calls_per_group)
            for block in group
        )


@register_family
class Electra(Family):
    """ELECTRA (Clark et al., 2020)."""

    name = "electra"
    title = "ELECTRA"
    class_name = "Electra"
    parts = BERT_PARTS
    size_names = {
        "vocabulary_size": "vocab_size",
        "num_key_value_heads": None,
    }
    block_settings = BlockSettings("gelu_new", 1e-12)


@register_family
class DebertaV3(Family):
    """DeBERTa-v3 (He et al., 2021): attention on relative positions."""

    name = "deberta_v3"
    title = "DeBERTa-v3"
    class_name = "DebertaV3"
    parts = {
        "token_embedding": "token_embedding",
        "embeddings_layer_norm": "embeddings_layer_norm",
        "relative_embeddings": "relative_embeddings",
    }
    # Disentangled attention adds products with relative positions to those of
    # queries and keys: its tensors are not those of other families.
    withheld_taps = ATTENTION_TAPS + VECTOR_TAPS
