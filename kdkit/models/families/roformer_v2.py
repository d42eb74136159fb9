"""RoFormerV2 (Su et al., 2021): an encoder with rotary positions.

keras-hub's backbone has no input for the padding mask: it treats token 0 as
padding. On TensorFlow and JAX its attention applies that mask to queries, not
to keys. So tokens also attend to padding, and the outputs for a text depend on
the amount of padding (docs/fidelity.md). Taps return what the layers compute.
"""

import keras
from keras import ops

from kdkit.models.families.blocks import BlockAdapter
from kdkit.models.families.family import Family, KerasHubClass, register_family
from kdkit.taps.masks import key_mask


class RoformerBlock(BlockAdapter):
    """Adapter of the blocks of `keras_hub.models.RoformerV2Backbone`."""

    @property
    def num_heads(self):
        return self.block.heads

    @property
    def head_dim(self):
        return self.block.head_size

    def queries(self, state, position=0):
        return self._rotated(self.block.attention_layer.q_dense(state))

    def keys(self, state, position=0):
        return self._rotated(self.block.attention_layer.k_dense(state))

    def values(self, state):
        return self._by_head(self.block.attention_layer.v_dense(state))

    def attention_output(self, attended):
        batch_size, length, *_ = ops.shape(attended)
        width = self.num_heads * self.head_dim
        attended = ops.reshape(attended, (batch_size, length, width))
        return self.block.attention_layer.o_dense(attended)

    def attention_mask(self, state, padding_mask):
        mask = key_mask(padding_mask)
        if mask is None or keras.backend.backend() == "torch":
            return mask
        return ops.transpose(mask, (0, 1, 3, 2))  # masks queries

    def _by_head(self, projected):
        batch_size, length, _ = ops.shape(projected)
        shape = (batch_size, length, self.num_heads, self.head_dim)
        return ops.reshape(projected, shape)

    def _rotated(self, projected):
        rotate = self.block.attention_layer.rotary_embedding_layer
        return rotate([self._by_head(projected)])


@register_family
class RoformerV2(Family):
    """`keras_hub.models.RoformerV2Backbone`."""

    name = "roformer_v2"
    title = "RoFormerV2"
    backbone = KerasHubClass("models.RoformerV2Backbone")
    classifier = KerasHubClass("models.RoformerV2TextClassifier")
    tokenizer = KerasHubClass("tokenizers.RoformerV2Tokenizer")
    masked_lm = KerasHubClass("models.RoformerV2MaskedLM")
    block = RoformerBlock
    parts = {
        name: name
        for name in (
            "token_embedding",
            "segment_embedding",
            "embeddings_layer_norm",
        )
    }
    padding_token = 0
    needs_fixed_length = (
        "LiteRT has no kernel for the slice that gives its rotary positions an "
        "axis for heads, and they are constants at one length only"
    )
    size_names = {
        "max_sequence_length": None,
        "embedding_dim": None,
        "num_key_value_heads": None,
    }

    def constructor_sizes(self, sizes):
        head_size = sizes["hidden_dim"] // sizes["num_heads"]
        return {**super().constructor_sizes(sizes), "head_size": head_size}
