"""GPT-2 (Radford et al., 2019), a decoder."""

from kdkit.models.families.blocks import DecoderBlock
from kdkit.models.families.checkpoints import CheckpointFormat, WeightLayout
from kdkit.models.families.family import (
    BlockSettings,
    Family,
    KerasHubClass,
    register_family,
)

# For every decoder: it reads from left to right, so the state of its first
# token does not depend on the other tokens.
WITHHELD_TAPS = ("cls_states",)


@register_family
class Gpt2(Family):
    """`keras_hub.models.GPT2Backbone`."""

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
