"""Queries, keys, values and attention, from the blocks' own projections.

XLA merges these projections with those of the forward pass. They are private
names of keras-hub: `_self_attention_layer` and `_self_attention_layer_norm` of
`TransformerEncoder` and of `TransformerDecoder`.
"""

import keras
import keras_hub
from keras import ops

from kdkit.taps.names import ATTENTION_TAPS
from kdkit.taps.names import VECTOR_TAPS

BLOCK_TAPS = ATTENTION_TAPS + VECTOR_TAPS


class AttentionReader:
    """Reads the taps of the attention of `TransformerEncoder`s or decoders.

    Args:
        blocks: sequence of `keras_hub.layers.TransformerEncoder`s or of
            `keras_hub.layers.TransformerDecoder`s, in the order of their calls.
        taps: the names that are wanted.
        dtype: dtype or policy of the softmax.
    """

    def __init__(self, blocks, taps, dtype):
        self._blocks = blocks
        self._wanted = set(taps) & set(BLOCK_TAPS)
        self._softmax = keras.layers.Softmax(dtype=dtype)

    def __call__(self, block_inputs, mask):
        """Returns a dict from tap to the list of a tensor per block.

        Args:
            block_inputs: list of tensors of shape `(batch_size,
                sequence_length, hidden_dim)`, one per block.
            mask: `None` or the padding mask, of any dtype.
        """
        if not self._wanted:
            return {}
        if mask is not None:
            mask = ops.cast(mask, "bool")[:, None, None, :]
        per_block = [
            self._read(block, state, mask)
            for block, state in zip(self._blocks, block_inputs, strict=True)
        ]
        return {tap: [read[tap] for read in per_block] for tap in self._wanted}

    def _read(self, block, state, mask):
        attention = block._self_attention_layer
        if block.normalize_first:
            state = block._self_attention_layer_norm(state)
        read = {
            "queries": attention.query_dense(state),
            "keys": attention.key_dense(state),
        }
        if "values" in self._wanted:
            read["values"] = attention.value_dense(state)
        if self._wanted & set(ATTENTION_TAPS):
            queries = read["queries"]
            scale = ops.cast(attention.key_dim**-0.5, queries.dtype)
            logits = ops.einsum(
                "bqhd,bkhd->bhqk", queries * scale, read["keys"]
            )
            read["attention_logits"] = logits
            if "attention_probs" in self._wanted:
                if isinstance(block, keras_hub.layers.TransformerDecoder):
                    mask = _and_causal(mask, ops.shape(logits)[-1])
                read["attention_probs"] = self._softmax(logits, mask=mask)
        return read


def _and_causal(mask, length):
    """A mask under which queries see themselves and what stands before."""
    positions = ops.arange(length)
    causal = (positions[:, None] >= positions[None, :])[None, None]
    return causal if mask is None else ops.logical_and(mask, causal)
