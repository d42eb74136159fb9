"""Taps: named tensors read from a model in one forward pass.

This is the only package that touches private names of Keras and keras-hub:
`attention.py`, `block_settings.py`, `cached_block.py`, `decoder_block.py`,
`endings.py`, `naming.py`, `saving.py` and `shape.py` list them.
tests/test_taps.py, tests/test_taps_endings.py, tests/test_naming.py,
tests/models/, tests/decoding/ and tests/runs/test_checkpoints.py pin what is
assumed of them.
"""

from kdkit.families import find_backbone
from kdkit.taps.block_settings import set_blocks
from kdkit.taps.block_settings import set_masked_lm_head
from kdkit.taps.cached_block import block_step
from kdkit.taps.cached_block import source_keys_values
from kdkit.taps.endings import Ending
from kdkit.taps.endings import ending
from kdkit.taps.entries import LENGTH
from kdkit.taps.entries import Entry
from kdkit.taps.entries import sizes
from kdkit.taps.inputs import padding_masks
from kdkit.taps.inputs import select_inputs
from kdkit.taps.masks import causal_mask
from kdkit.taps.masks import key_mask
from kdkit.taps.names import ATTENTION_TAPS
from kdkit.taps.names import CLS_INDEX
from kdkit.taps.names import OUTPUT_TAPS
from kdkit.taps.names import PER_LAYER_TAPS
from kdkit.taps.names import SEQ2SEQ_TAPS
from kdkit.taps.names import STATE_TAPS
from kdkit.taps.names import TAPS
from kdkit.taps.names import TEACHER_OUTPUTS
from kdkit.taps.names import VECTOR_TAPS
from kdkit.taps.names import reads_source
from kdkit.taps.names import split_tap
from kdkit.taps.names import taps_beside
from kdkit.taps.naming import kept_names
from kdkit.taps.naming import number_later
from kdkit.taps.naming import own_names
from kdkit.taps.saving import remember_optimizers
from kdkit.taps.shape import ModelShape
from kdkit.taps.shape import check_taps
from kdkit.taps.shape import describe
from kdkit.taps.tapped import TappedModel
from kdkit.taps.tapped import tapped
from kdkit.taps.vocabulary import FactoredLogits
from kdkit.taps.vocabulary import output_embeddings

__all__ = [
    "ATTENTION_TAPS",
    "CLS_INDEX",
    "LENGTH",
    "OUTPUT_TAPS",
    "PER_LAYER_TAPS",
    "SEQ2SEQ_TAPS",
    "STATE_TAPS",
    "TAPS",
    "TEACHER_OUTPUTS",
    "VECTOR_TAPS",
    "Ending",
    "Entry",
    "FactoredLogits",
    "ModelShape",
    "TappedModel",
    "block_step",
    "causal_mask",
    "check_taps",
    "describe",
    "ending",
    "find_backbone",
    "kept_names",
    "key_mask",
    "number_later",
    "output_embeddings",
    "own_names",
    "padding_masks",
    "reads_source",
    "remember_optimizers",
    "select_inputs",
    "set_blocks",
    "set_masked_lm_head",
    "sizes",
    "source_keys_values",
    "split_tap",
    "tapped",
    "taps_beside",
]
