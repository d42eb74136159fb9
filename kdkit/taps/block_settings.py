"""Activation and layer normalisation inside blocks and heads that exist.

keras-hub's backbones make their blocks with one activation and one epsilon, and
take neither as an argument. The private names that setting them needs are
`_feedforward_intermediate_dense`, `_self_attention_layer_norm` and
`_feedforward_layer_norm` of `TransformerEncoder` and `TransformerDecoder`, and
`_intermediate_dense` and `_intermediate_layer_norm` of `MaskedLMHead`.
"""

from kdkit.families import blocks_of

NORMS = ("embeddings_layer_norm", "layer_norm")  # outside the blocks


def set_blocks(backbone, activation, layer_norm_epsilon: float) -> None:
    """Sets the activation and the epsilon of all blocks of a backbone.

    Args:
        backbone: a backbone of a family in `kdkit.families.ALL_FAMILIES`,
            but DeBERTa-v3.
        activation: callable, of the feed-forward layers.
        layer_norm_epsilon: float. Also of the layer normalisation of the
            embeddings, and of a decoder's last one.
    """
    for block in blocks_of(backbone):
        block.activation = activation
        block._feedforward_intermediate_dense.activation = activation
        block.layer_norm_epsilon = layer_norm_epsilon
        block._self_attention_layer_norm.epsilon = layer_norm_epsilon
        block._feedforward_layer_norm.epsilon = layer_norm_epsilon
    for name in NORMS:
        norm = getattr(backbone, name, None)
        if norm is not None:
            norm.epsilon = layer_norm_epsilon


def set_masked_lm_head(head, activation, layer_norm_epsilon: float) -> None:
    """Sets the activation and the epsilon of a masked-language-model head.

    Args:
        head: `keras_hub.layers.MaskedLMHead` that is built.
        activation: callable, of the dense layer before the vocabulary.
        layer_norm_epsilon: float.
    """
    head.intermediate_activation = activation
    head._intermediate_dense.activation = activation
    head.layer_norm_epsilon = layer_norm_epsilon
    head._intermediate_layer_norm.epsilon = layer_norm_epsilon
