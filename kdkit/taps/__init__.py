"""Taps: named tensors read from a model in one forward pass.

This is the only package that touches private names of Keras and keras-hub:
`attention.py`, `block_settings.py`, `cached_block.py`, `decoder_block.py`,
`endings.py`, `naming.py`, `saving.py` and `shape.py` list them.
tests/test_taps.py, tests/test_taps_endings.py, tests/test_naming.py,
tests/models/, tests/decoding/ and tests/runs/test_checkpoints.py pin what is
assumed of them.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "ATTENTION_TAPS": "names",
    "CLS_INDEX": "names",
    "LENGTH": "entries",
    "OUTPUT_TAPS": "names",
    "PER_LAYER_TAPS": "names",
    "SEQ2SEQ_TAPS": "names",
    "STATE_TAPS": "names",
    "TAPS": "names",
    "TEACHER_OUTPUTS": "names",
    "VECTOR_TAPS": "names",
    "Ending": "endings",
    "Entry": "entries",
    "FactoredLogits": "vocabulary",
    "ModelShape": "shape",
    "TappedModel": "rewiring",
    "block_step": "cached_block",
    "causal_mask": "masks",
    "check_taps": "shape",
    "describe": "shape",
    "ending": "endings",
    "find_backbone": "kdkit.families",
    "kept_names": "naming",
    "key_mask": "masks",
    "number_later": "naming",
    "output_embeddings": "vocabulary",
    "own_names": "naming",
    "padding_masks": "inputs",
    "reads_source": "names",
    "remember_optimizers": "saving",
    "select_inputs": "inputs",
    "set_blocks": "block_settings",
    "set_masked_lm_head": "block_settings",
    "sizes": "entries",
    "source_keys_values": "cached_block",
    "split_tap": "names",
    "tapped": "rewiring",
    "taps_beside": "names",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
