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
    # Disentangled attention adds products with relative positions to those of
    # queries and keys: its tensors are not those of other families.
    withheld_taps = (
        "attention_logits",
        "attention_probs",
        "queries",
        "keys",
        "values",
    )
