"""Queries, keys, values and attention, from the blocks' own projections.

XLA merges these projections with those of the forward pass. The block adapters
of `kdkit.models.families` have them for each family.
"""

import keras

from kdkit.taps.names import ATTENTION_TAPS
from kdkit.taps.names import VECTOR_TAPS
from kdkit.taps.names import name_tap
from kdkit.taps.names import split_tap


class AttentionReader:
    """Reads the taps of the attention of one part of a model.

    Args:
        part: string, as `kdkit.taps.split_tap` returns it.
        blocks: sequence of `kdkit.models.BlockAdapter`s, in the order of the
            blocks' calls.
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
        per_block = [
            self._read(block, state, source, padding_mask)
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

    def _read(self, block, state, source, padding_mask):
        attention = block if source is None else block.cross_attention
        state = attention.attention_input(state)
        source = state if source is None else source
        read = {
            "queries": attention.queries(state),
            "keys": attention.repeat_groups(attention.keys(source)),
        }
        if "values" in self._kinds:
            values = attention.values(source)
            read["values"] = attention.repeat_groups(values)
        if self._kinds & set(ATTENTION_TAPS):
            logits = attention.scores(read["queries"], read["keys"])
            read["attention_logits"] = logits
            if "attention_probs" in self._kinds:
                mask = attention.attention_mask(state, padding_mask)
                read["attention_probs"] = self._softmax(logits, mask=mask)
        return read
