"""Queries, keys, values and attention, from the blocks' own projections.

XLA merges these projections with those of the forward pass. They are private
names of keras-hub: `_self_attention_layer` and `_self_attention_layer_norm` of
`TransformerEncoder` and of `TransformerDecoder`, and `_cross_attention_layer`
of the latter.
"""

import keras
import keras_hub
from keras import ops

from kdkit.taps.masks import both
from kdkit.taps.masks import causal_mask
from kdkit.taps.masks import key_mask
from kdkit.taps.names import ATTENTION_TAPS
from kdkit.taps.names import VECTOR_TAPS
from kdkit.taps.names import name_tap
from kdkit.taps.names import split_tap


class AttentionReader:
    """Reads the taps of the attention of one part of a model.

    Args:
        part: string, as `kdkit.taps.split_tap` returns it.
        blocks: sequence of `keras_hub.layers.TransformerEncoder`s or of
            `keras_hub.layers.TransformerDecoder`s, in the order of their calls.
        taps: the names that are wanted. Those of other parts are left out.
        dtype: dtype or policy of the softmax.
    """

    def __init__(self, part, blocks, taps, dtype):
        self._part = part
        self._blocks = blocks
        self._kinds = {
            kind
            for of_part, kind in map(split_tap, taps)
            if of_part == part and kind in ATTENTION_TAPS + VECTOR_TAPS
        }
        self._softmax = keras.layers.Softmax(dtype=dtype)

    def __call__(self, inputs, sources, padding_mask):
        """Returns a dict from tap to the list of a tensor per block.

        Args:
            inputs: list of tensors of shape `(batch_size, sequence_length,
                hidden_dim)`, one per block: what it takes, or what its
                cross-attention does.
            sources: `None` for self-attention, or a list of as many tensors of
                shape `(batch_size, source_length, hidden_dim)`.
            padding_mask: `None` or the padding mask of the keys, of any dtype.
        """
        if not self._kinds:
            return {}
        mask = key_mask(padding_mask)
        per_block = [
            self._read(block, state, source, mask)
            for block, state, source in zip(
                self._blocks,
                inputs,
                sources or [None] * len(inputs),
                strict=True,
            )
        ]
        return {
            name_tap(self._part, kind): [read[kind] for read in per_block]
            for kind in self._kinds
        }

    def _read(self, block, state, source, mask):
        is_cross = source is not None
        if is_cross:
            attention = block._cross_attention_layer
        else:
            attention = block._self_attention_layer
            if block.normalize_first:
                state = block._self_attention_layer_norm(state)
            source = state
        read = {
            "queries": attention.query_dense(state),
            "keys": attention.key_dense(source),
        }
        if "values" in self._kinds:
            read["values"] = attention.value_dense(source)
        if self._kinds & set(ATTENTION_TAPS):
            queries = read["queries"]
            scale = ops.cast(attention.key_dim**-0.5, queries.dtype)
            logits = ops.einsum(
                "bqhd,bkhd->bhqk", queries * scale, read["keys"]
            )
            read["attention_logits"] = logits
            if "attention_probs" in self._kinds:
                is_decoder = isinstance(
                    block, keras_hub.layers.TransformerDecoder
                )
                if is_decoder and not is_cross:
                    mask = both(mask, causal_mask(state[..., 0]))
                read["attention_probs"] = self._softmax(logits, mask=mask)
        return read
