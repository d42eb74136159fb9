"""Taps: named tensors read from a model in one forward pass.

Only `private.py` reads private attributes of Keras and keras-hub; only
`naming.py` and `layers.py` import modules from `keras.src`.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "ATTENTION_TAPS": "names",
    "CLS_INDEX": "names",
    "LENGTH": "entries",
    "PER_LAYER_TAPS": "names",
    "POSITION_TAPS": "names",
    "SENTENCE_EMBEDDING": "names",
    "SEQ2SEQ_TAPS": "names",
    "TAPS": "names",
    "TEACHER_OUTPUTS": "names",
    "VECTOR_TAPS": "names",
    "Entry": "entries",
    "FactoredLogits": "tapping",
    "ModelShape": "shape",
    "causal_mask": "masks",
    "require_taps": "shape",
    "describe": "shape",
    "find_backbone": "kdkit.models.families",
    "has_graph": "layers",
    "is_layer_tap": "names",
    "keras_mask": "layers",
    "kept_names": "naming",
    "key_mask": "masks",
    "number_later": "naming",
    "own_names": "naming",
    "padding_masks": "masks",
    "reads_source": "names",
    "select_inputs": "masks",
    "shows_logits": "shape",
    "sizes": "entries",
    "split_tap": "names",
    "symbolic_inputs": "layers",
    "tap_name": "names",
    "tapped": "tapping",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
