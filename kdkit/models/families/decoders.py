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
    class_name = "GPT2"
    causal_lm = KerasHubClass("CausalLM")
    block = DecoderBlock
    parts = {
        "token_embedding": "token_embedding",
        "position_embedding": "position_embedding",
        "final_layer_norm": "layer_norm",
    }
    block_settings = BlockSettings("gelu_new", 1e-5)
    special_tokens = ("<|endoftext|>",)
    withheld_taps = WITHHELD_TAPS
    checkpoints = CheckpointFormat(
        model_type="gpt2",
        prefix="transformer",
        sizes={
            "vocabulary_size": ("vocab_size", 50257),
            "num_layers": ("n_layer", 12),
            "num_heads": ("n_head", 12),
            "hidden_dim": ("n_embd", 768),
            "intermediate_dim": ("n_inner", None),
            "max_sequence_length": ("n_positions", 1024),
        },
        dropout=("resid_pdrop", 0.1),
        same_dropouts=("attn_pdrop", "embd_pdrop"),
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
    )


class LlamaBlock(BlockAdapter):
    """Adapter of the blocks of `keras_hub.models.Llama3Backbone`."""

    def queries(self, state, position=0):
        return self._rotated(self.projections.query(state), position)

    def keys(self, state, position=0):
        return self._rotated(self.projections.key(state), position)

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

    def _rotated(self, projected, position):
        rotate = self.attention.rotary_embedding_layer
        return rotate(projected, start_index=position)


@register_family
class Llama3(Family):
    """Llama 3 (Grattafiori et al., 2024): rotary positions.

    Several query heads share a head of keys and values, feed-forward layers are
    gated, and token and output embeddings are separate weights.
    """

    name = "llama3"
    title = "Llama 3"
    class_name = "Llama3"
    causal_lm = KerasHubClass("CausalLM")
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


class Qwen3Block(LlamaBlock):
    """Adapter of the blocks of `keras_hub.models.Qwen3Backbone`."""

    def queries(self, state, position=0):
        norm, _ = self._norms
        return self._rotated(norm(self.projections.query(state)), position)

    def keys(self, state, position=0):
        _, norm = self._norms
        return self._rotated(norm(self.projections.key(state)), position)

    def set_functions(self, activation, layer_norm_epsilon):
        self.block.activation = activation
        for norm in self._norms:
            norm.epsilon = layer_norm_epsilon

    @property
    def _norms(self):
        return private.query_key_norms(self.attention)


@register_family
class Qwen3(Llama3):
    """Qwen 3 (Yang et al., 2025): a Llama that normalizes queries and keys.

    Its small models have one table of tokens.
    """

    name = "qwen3"
    title = "Qwen 3"
    class_name = "Qwen3"
    block = Qwen3Block
    special_tokens = ("<|endoftext|>", "<|im_end|>")
    # The epsilon of queries and keys, which is no argument of keras-hub's.
    block_settings = BlockSettings("silu", 1e-5)
    checkpoints = CheckpointFormat(
        model_type="qwen3",
        prefix="model",
        sizes={
            "vocabulary_size": ("vocab_size", 151936),
            "num_layers": ("num_hidden_layers", 32),
            "num_query_heads": ("num_attention_heads", 32),
            "num_key_value_heads": ("num_key_value_heads", 32),
            "head_dim": ("head_dim", 128),
            "hidden_dim": ("hidden_size", 4096),
            "intermediate_dim": ("intermediate_size", 22016),
            "layer_norm_epsilon": ("rms_norm_eps", 1e-6),
            "rope_max_wavelength": ("rope_theta", 10_000.0),
            "tie_word_embeddings": ("tie_word_embeddings", False),
        },
        dropout=("attention_dropout", 0.0),
        same_dropouts=(),
        activation=("hidden_act", "silu"),
        epsilon=("rms_norm_eps", 1e-6),
        weights=WeightLayout(
            {
                "token_embedding": "embed_tokens",
                "sequence_output_layernorm": "norm",
            },
            r"layers.\1.",
            {
                "self_attention/query": "self_attn.q_proj",
                "self_attention/query_dense_layernorm": "self_attn.q_norm",
                "self_attention/key": "self_attn.k_proj",
                "self_attention/key_dense_layernorm": "self_attn.k_norm",
                "self_attention/value": "self_attn.v_proj",
                "self_attention/attention_output": "self_attn.o_proj",
                "self_attention_layernorm": "input_layernorm",
                "feedforward_intermediate_dense": "mlp.up_proj",
                "feedforward_gate_dense": "mlp.gate_proj",
                "feedforward_output_dense": "mlp.down_proj",
                "feedforward_layernorm": "post_attention_layernorm",
            },
        ),
        tied_logits="lm_head.weight",
        language_model="ForCausalLM",
    )
    config = Family.config  # keras-hub saves whether the tables are tied

    def constructor_sizes(self, sizes):
        return {
            **super().constructor_sizes(sizes),
            "head_dim": sizes["hidden_dim"] // sizes["num_heads"],
            # Then all norms have one epsilon, as in transformers.
            "layer_norm_epsilon": self.block_settings.layer_norm_epsilon,
        }
