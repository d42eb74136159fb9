"""RoBERTa (Liu et al., 2019)."""

from kdkit.models.families.bert import WEIGHTS
from kdkit.models.families.checkpoints import (
    BERT_SIZES,
    CheckpointFormat,
    MaskedLMLayout,
)
from kdkit.models.families.distil_bert import PARTS
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    KerasHubClass,
    register_family,
)

CHECKPOINTS = CheckpointFormat(
    model_type="roberta",
    class_name="Roberta",
    prefix="roberta",
    sizes={**BERT_SIZES, "vocabulary_size": (("vocab_size",), 50265)},
    dropout=("hidden_dropout_prob", 0.1),
    activation=("hidden_act", "gelu"),
    epsilon=("layer_norm_eps", 1e-12),
    weights=WEIGHTS,
    masked_lm=MaskedLMLayout(
        dense="lm_head.dense",
        layer_norm="lm_head.layer_norm",
        biases=("lm_head.bias", "lm_head.decoder.bias"),
        decoder="lm_head.decoder.weight",
    ),
    masked_lm_activation="gelu",
    special_tokens={
        "bos": "<s>",
        "eos": "</s>",
        "sep": "</s>",
        "cls": "<s>",
        "pad": "<pad>",
        "mask": "<mask>",
    },
    classifier={
        "pooled_dense": "classifier.dense",
        "logits": "classifier.out_proj",
    },
    positions_follow_padding=True,
    has_one_segment=True,
    same_dropouts=("attention_probs_dropout_prob",),
)


@register_family
class Roberta(Family):
    """`keras_hub.models.RobertaBackbone`."""

    name = "roberta"
    title = "RoBERTa"
    backbone = KerasHubClass("models.RobertaBackbone")
    classifier = KerasHubClass("models.RobertaTextClassifier")
    tokenizer = KerasHubClass("tokenizers.RobertaTokenizer")
    masked_lm = KerasHubClass("models.RobertaMaskedLM")
    parts = PARTS
    num_separators = 2
    block_settings = BlockSettings("gelu", 1e-5)
    head_settings = BlockSettings("gelu", 1e-5)
    checkpoints = CHECKPOINTS
