"""XLM-RoBERTa (Conneau et al., 2019): RoBERTa on a multilingual vocabulary."""

import dataclasses

from kdkit.models.families.checkpoints import BERT_SIZES
from kdkit.models.families.family import KerasHubClass, register_family
from kdkit.models.families.roberta import CHECKPOINTS, Roberta


@register_family
class XlmRoberta(Roberta):
    """`keras_hub.models.XLMRobertaBackbone`."""

    name = "xlm_roberta"
    title = "XLM-RoBERTa"
    backbone = KerasHubClass("models.XLMRobertaBackbone")
    classifier = KerasHubClass("models.XLMRobertaTextClassifier")
    embedder = KerasHubClass("models.XLMRobertaTextEmbedder")
    tokenizer = KerasHubClass("tokenizers.XLMRobertaTokenizer")
    masked_lm = KerasHubClass("models.XLMRobertaMaskedLM")
    checkpoints = dataclasses.replace(
        CHECKPOINTS,
        model_type="xlm-roberta",
        class_name="XLMRoberta",
        sizes=BERT_SIZES,
        special_tokens={
            "bos": "<s>",
            "pad": "<pad>",
            "eos": "</s>",
            "unk": "<unk>",
            "mask": "<mask>",
        },
        vocabulary_file="sentencepiece.bpe.model",
        unknown_id=3,
    )
