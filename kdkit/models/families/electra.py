"""ELECTRA (Clark et al., 2020)."""

from kdkit.models.families.bert import PARTS
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    KerasHubClass,
    register_family,
)


@register_family
class Electra(Family):
    """`keras_hub.models.ElectraBackbone`."""

    name = "electra"
    title = "ELECTRA"
    backbone = KerasHubClass("models.ElectraBackbone")
    # keras-hub has no classifier for ELECTRA; BERT's reads the same outputs.
    classifier = KerasHubClass("models.BertTextClassifier")
    tokenizer = KerasHubClass("tokenizers.ElectraTokenizer")
    parts = {**PARTS, "embeddings_projection": "embeddings_projection"}
    size_names = {
        "vocabulary_size": "vocab_size",
        "num_key_value_heads": None,
    }
    block_settings = BlockSettings("gelu_new", 1e-12)
