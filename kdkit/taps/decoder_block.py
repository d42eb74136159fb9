"""A decoder's block, taken apart at its attention.

The private names of `TransformerDecoder` that this needs are, for each of
`self_attention`, `cross_attention` and `feedforward`, `_…_layer_norm` and
`_…_dropout`; `_self_attention_layer`, `_cross_attention_layer`,
`_feedforward_intermediate_dense` and `_feedforward_output_dense`.
"""

import keras

from kdkit.taps.masks import both
from kdkit.taps.masks import causal_mask
from kdkit.taps.masks import key_mask


def run_block(block, state, attend, attend_to_source=None):
    """Runs a block with attention of the caller's.

    Args:
        block: `keras_hub.layers.TransformerDecoder`.
        state: tensor of shape `(batch_size, length, hidden_dim)`.
        attend: callable from what the block's self-attention reads of the state
            to what it gives, both of that shape.
        attend_to_source: callable, likewise for cross-attention, or `None` for
            a block without it. Defaults to `None`.

    Returns:
        The block's output, of the shape of `state`.
    """
    state = _add(block, "self_attention", state, attend)
    if attend_to_source is not None:
        state = _add(block, "cross_attention", state, attend_to_source)

    def feed_forward(state):
        inner = block._feedforward_intermediate_dense(state)
        return block._feedforward_output_dense(inner)

    return _add(block, "feedforward", state, feed_forward)


class OpenBlock(keras.layers.Layer):
    """A block that also gives what its cross-attention makes queries from.

    This stands between the block's parts, behind dropout, so that it can be had
    neither from what the block takes nor from what it gives.

    Args:
        block: `keras_hub.layers.TransformerDecoder` with cross-attention, which
            lends its weights.

    Call arguments:
        decoder_sequence: as the block takes it. So for the others.
        encoder_sequence: what it attends to.
        decoder_padding_mask: `None` or mask. Defaults to `None`.
        encoder_padding_mask: `None` or mask. Defaults to `None`.

    Returns of a call:
        Tuple of the block's output and the tensor, both of the shape of
        `decoder_sequence`.
    """

    def __init__(self, block):
        super().__init__(dtype=block.dtype_policy, name=f"open_{block.name}")
        self.block = block
        self.built = True

    def call(
        self,
        decoder_sequence,
        encoder_sequence,
        decoder_padding_mask=None,
        encoder_padding_mask=None,
    ):
        block = self.block
        read = []
        of_decoder = both(
            causal_mask(decoder_sequence[..., 0]),
            key_mask(decoder_padding_mask),
        )
        of_encoder = key_mask(encoder_padding_mask)

        def attend(state):
            return block._self_attention_layer(
                query=state, value=state, attention_mask=of_decoder
            )

        def attend_to_source(state):
            read.append(state)
            return block._cross_attention_layer(
                query=state, value=encoder_sequence, attention_mask=of_encoder
            )

        output = run_block(block, decoder_sequence, attend, attend_to_source)
        return output, *read


def _add(block, part, state, function):
    """Adds what a part of the block makes of a state to it, and normalises."""
    layer_norm = getattr(block, f"_{part}_layer_norm")
    dropout = getattr(block, f"_{part}_dropout")
    read = layer_norm(state) if block.normalize_first else state
    state = state + dropout(function(read))
    return state if block.normalize_first else layer_norm(state)
