"""Llama 3 (Grattafiori et al., 2024): a decoder with rotary positions.

Several query heads share a head of keys and values, feed-forward layers are
gated, and token and output embeddings are separate weights.
"""

from kdkit.errors import UsageError
from kdkit.late import ops
from kdkit.models.families.blocks import BlockAdapter
from kdkit.models.families.family import Family, KerasHubClass, register_family
from kdkit.models.families.gpt2 import WITHHELD_TAPS
from kdkit.taps import private


class LlamaBlock(BlockAdapter):
    """Adapter of the blocks of `keras_hub.models.Llama3Backbone`."""

    @property
    def num_heads(self):
        return self.block.num_query_heads

    @property
    def num_key_value_heads(self):
        return self.block.num_key_value_heads

    @property
    def head_dim(self):
        return self.block.hidden_dim // self.num_heads

    def queries(self, state, position=0):
        return self._rotated(self._projections.query(state), position)

    def keys(self, state, position=0):
        return self._rotated(self._projections.key(state), position)

    def values(self, state):
        return self._projections.value(state)

    def attention_output(self, attended):
        return self._projections.output(attended)

    def run(self, state, attend, attend_to_source=None):
        normalized = private.layer_norm(self.block, "self_attention")(state)
        dropout = private.dropout(self.block, "self_attention")
        state = state + dropout(attend(normalized))
        normalized = private.layer_norm(self.block, "feedforward")(state)
        layers = private.feed_forward(self.block)
        # keras-hub computes the activation in float32 too.
        gate = ops.cast(layers.gate(normalized), "float32")
        gate = ops.cast(self.block.activation(gate), state.dtype)
        return state + layers.output(layers.intermediate(normalized) * gate)

    @property
    def _projections(self):
        return private.llama_projections(self.attention)

    def _rotated(self, projected, position):
        rotate = self.attention.rotary_embedding_layer
        return rotate(projected, start_index=position)


@register_family
class Llama3(Family):
    """`keras_hub.models.Llama3Backbone`."""

    name = "llama3"
    title = "Llama 3"
    backbone = KerasHubClass("models.Llama3Backbone")
    tokenizer = KerasHubClass("tokenizers.Llama3Tokenizer")
    causal_lm = KerasHubClass("models.Llama3CausalLM")
    block = LlamaBlock
    parts = {
        "token_embedding": "token_embedding",
        "final_layer_norm": "layer_norm",
    }
    size_names = {
        "num_heads": "num_query_heads",
        "max_sequence_length": None,
        "embedding_dim": None,
    }
    special_tokens = (
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|end_of_text|>",
    )
    withheld_taps = WITHHELD_TAPS

    def config(self, backbone):
        if backbone.tie_word_embeddings:
            raise UsageError(
                "keras-hub does not save that a Llama 3 has tied embeddings, "
                "so a copy would have other weights."
            )
        return backbone.get_config()

    def least_parameters(self, sizes):
        width, inner = sizes.hidden_dim, sizes.intermediate_dim
        groups = sizes.num_key_value_heads or sizes.num_heads
        group_width = width * groups // sizes.num_heads
        block = 2 * width * (width + group_width) + 3 * width * inner
        return 2 * sizes.vocabulary_size * width + sizes.num_layers * block

    def output_embeddings(self, backbone):
        embedding = self.token_embedding(backbone)
        if embedding.tie_weights:
            return embedding.embeddings
        return ops.transpose(embedding.reverse_embeddings)
