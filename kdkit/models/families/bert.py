"""BERT (Devlin et al., 2018)."""

from kdkit.models.families.checkpoints import (
    BERT_EMBEDDINGS,
    BERT_SIZES,
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

PARTS = {
    name: name
    for name in (
        "token_embedding",
        "position_embedding",
        "segment_embedding",
        "embeddings_layer_norm",
        "pooled_dense",
    )
}
SIZES = {**BERT_SIZES, "num_segments": (("type_vocab_size",), 2)}
WEIGHTS = WeightLayout(
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


@register_family
class Bert(Family):
    """`keras_hub.models.BertBackbone`."""

    name = "bert"
    title = "BERT"
    backbone = KerasHubClass("models.BertBackbone")
    classifier = KerasHubClass("models.BertTextClassifier")
    embedder = KerasHubClass("models.BertTextEmbedder")
    tokenizer = KerasHubClass("tokenizers.BertTokenizer")
    masked_lm = KerasHubClass("models.BertMaskedLM")
    parts = PARTS
    block_settings = BlockSettings("gelu_new", 1e-12)
    head_settings = BlockSettings("gelu", 1e-5)
    reads_sentence_pieces = True
    checkpoints = CheckpointFormat(
        model_type="bert",
        class_name="Bert",
        prefix="bert",
        sizes=SIZES,
        dropout=("hidden_dropout_prob", 0.1),
        activation=("hidden_act", "gelu"),
        epsilon=("layer_norm_eps", 1e-12),
        weights=WEIGHTS,
        masked_lm=MaskedLMLayout(
            dense="cls.predictions.transform.dense",
            layer_norm="cls.predictions.transform.LayerNorm",
            biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
            decoder="cls.predictions.decoder.weight",
        ),
        classifier={"logits": "classifier"},
        same_dropouts=("attention_probs_dropout_prob",),
    )
