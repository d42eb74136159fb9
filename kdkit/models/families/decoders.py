"""Decoders: GPT-2, and families with rotary positions and gates."""

from kdkit.errors import UsageError
from kdkit.late import ops
from kdkit.models.families.blocks import BlockAdapter, DecoderBlock
from kdkit.models.families.checkpoints import CheckpointFormat, WeightLayout
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    KerasHubClass,
    register_family,
)
from kdkit.taps import private

# For every decoder: it reads from left to right, so the state of its first
# token does not depend on the other tokens.
WITHHELD_TAPS = ("cls_states",)


@register_family
class Gpt2(Family):
    """GPT-2 (Radford et al., 2019)."""

    name = "gpt2"
    title = "GPT-2"
    backbone = KerasHubClass("models.GPT2Backbone")
    tokenizer = KerasHubClass("tokenizers.GPT2Tokenizer")
    causal_lm = KerasHubClass("models.GPT2CausalLM")
    block = DecoderBlock
    parts = {
        "token_embedding": "token_embedding",
        "position_embedding": "position_embedding",
        "final_layer_norm": "layer_norm",
    }
    block_settings = BlockSettings("gelu_new", 1e-5)
    reads_sentence_pieces = True
    special_tokens = ("<|endoftext|>",)
    withheld_taps = WITHHELD_TAPS
    checkpoints = CheckpointFormat(
        model_type="gpt2",
        class_name="GPT2",
        prefix="transformer",
        sizes={
            "vocabulary_size": (("vocab_size",), 50257),
            "num_layers": (("n_layer", "num_hidden_layers"), 12),
            "num_heads": (("n_head", "num_attention_heads"), 12),
            "hidden_dim": (("n_embd", "hidden_size"), 768),
            "intermediate_dim": (("n_inner",), None),
            "max_sequence_length": (
                ("n_positions", "max_position_embeddings"),
                1024,
            ),
        },
        dropout=("resid_pdrop", 0.1),
        activation=("activation_function", "gelu_new"),
        epsilon=("layer_norm_epsilon", 1e-5),
        weights=WeightLayout(
            {
                "token_embedding": "wte",
                "position_embedding": "wpe",
                "layer_norm": "ln_f",
            },
            r"h.\1.",
            {
                "self_attention/query": "attn.c_attn",
                "self_attention/key": "attn.c_attn",
                "self_attention/value": "attn.c_attn",
                "self_attention/attention_output": "attn.c_proj",
                "self_attention_layer_norm": "ln_1",
                "feedforward_intermediate_dense": "mlp.c_fc",
                "feedforward_output_dense": "mlp.c_proj",
                "feedforward_layer_norm": "ln_2",
            },
            ignored=r"attn\.(masked_)?bias$",
            joined="attn.c_attn",
            is_transposed=False,
        ),
        tied_logits="lm_head.weight",
        special_tokens={"bos": "<|endoftext|>", "eos": "<|endoftext|>"},
        same_dropouts=("attn_pdrop", "embd_pdrop"),
    )


class LlamaBlock(BlockAdapter):
    """Adapter of the blocks of `keras_hub.models.Llama3Backbone`."""

    is_causal = True

    @property
    def num_heads(self):
        return self.block.num_query_heads

    @property
    def num_key_value_heads(self):
        return self.block.num_key_value_heads

    @property
    def head_dim(self):
        return self.block.hidden_dim // self.num_heads

    def attention_input(self, state):
        return private.layer_norm(self.block, "self_attention")(state)

    def queries(self, state, position=0):
        return self._rotated(self._projections.query(state), position)

    def keys(self, state, position=0):
        return self._rotated(self._projections.key(state), position)

    def values(self, state):
        return self._projections.value(state)

    def attention_output(self, attended):
        return self._projections.output(attended)

    def run(self, state, attend, attend_to_source=None):
        dropout = private.dropout(self.block, "self_attention")
        state = state + dropout(attend(self.attention_input(state)))
        normalized = private.layer_norm(self.block, "feedforward")(state)
        layers = private.feed_forward(self.block)
        # keras-hub computes the activation in float32 too.
        gate = ops.cast(layers.gate(normalized), "float32")
        gate = ops.cast(self.block.activation(gate), state.dtype)
        return state + layers.output(layers.intermediate(normalized) * gate)

    @property
    def _projections(self):
        return private.llama_projections(private.self_attention(self.block))

    def _rotated(self, projected, position):
        attention = private.self_attention(self.block)
        return attention.rotary_embedding_layer(projected, start_index=position)


@register_family
class Llama3(Family):
    """Llama 3 (Grattafiori et al., 2024): rotary positions.

    Several query heads share a head of keys and values, feed-forward layers are
    gated, and token and output embeddings are separate weights.
    """

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
