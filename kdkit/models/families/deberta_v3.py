"""DeBERTa-v3 (He et al., 2021): attention on relative positions."""

from kdkit.models.families.family import Family, KerasHubClass, register_family


@register_family
class DebertaV3(Family):
    """`keras_hub.models.DebertaV3Backbone`."""

    name = "deberta_v3"
    title = "DeBERTa-v3"
    backbone = KerasHubClass("models.DebertaV3Backbone")
    classifier = KerasHubClass("models.DebertaV3TextClassifier")
    tokenizer = KerasHubClass("tokenizers.DebertaV3Tokenizer")
    masked_lm = KerasHubClass("models.DebertaV3MaskedLM")
    parts = {
        name: name
        for name in (
            "token_embedding",
            "embeddings_layer_norm",
            "relative_embeddings",
        )
    }
    withheld_taps = (
        "attention_logits",
        "attention_probs",
        "queries",
        "keys",
        "values",
    )
    withheld_because = (
        "its disentangled attention adds products with relative positions to "
        "those of queries and keys, so its tensors do not correspond to the "
        "taps with these names in other families"
    )
