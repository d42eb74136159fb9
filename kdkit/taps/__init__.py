"""Taps: named tensors read from a model in one forward pass.

This is the only package that touches private names of Keras and keras-hub:
`attention.py`, `cached_block.py` and `shape.py` say which. tests/test_taps.py,
tests/models/test_families.py and tests/decoding/ pin what is assumed of them.
"""

from kdkit.families import find_backbone
from kdkit.taps.cached_block import block_step
from kdkit.taps.cached_block import source_keys_values
from kdkit.taps.entries import LENGTH
from kdkit.taps.entries import Entry
from kdkit.taps.entries import sizes
from kdkit.taps.inputs import padding_mask
from kdkit.taps.inputs import select_inputs
from kdkit.taps.names import ATTENTION_TAPS
from kdkit.taps.names import CLS_INDEX
from kdkit.taps.names import OUTPUT_TAPS
from kdkit.taps.names import PER_LAYER_TAPS
from kdkit.taps.names import STATE_TAPS
from kdkit.taps.names import TAPS
from kdkit.taps.names import TEACHER_OUTPUTS
from kdkit.taps.names import VECTOR_TAPS
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
    "STATE_TAPS",
    "TAPS",
    "TEACHER_OUTPUTS",
    "VECTOR_TAPS",
    "Entry",
    "FactoredLogits",
    "ModelShape",
    "TappedModel",
    "block_step",
    "source_keys_values",
    "check_taps",
    "describe",
    "find_backbone",
    "output_embeddings",
    "padding_mask",
    "select_inputs",
    "sizes",
    "tapped",
]
