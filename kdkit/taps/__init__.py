"""Taps: named tensors read from a model in one forward pass.

Only `private.py` reads private attributes of Keras and keras-hub; only
`naming.py` and `layers.py` import modules from `keras.src`.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "ATTENTION_TAPS": "names",
    "LENGTH": "entries",
    "PER_LAYER_TAPS": "names",
    "SENTENCE_EMBEDDING": "names",
    "SEQ2SEQ_TAPS": "names",
    "TAPS": "names",
    "TEACHER_OUTPUTS": "names",
    "VECTOR_TAPS": "names",
    "Entry": "entries",
    "FactoredLogits": "tapping",
    "ModelShape": "shape",
    "describe": "shape",
    "has_graph": "layers",
    "keras_mask": "layers",
    "kept_names": "naming",
    "number_later": "naming",
    "own_names": "naming",
    "reads_source": "names",
    "select_inputs": "inputs",
    "sizes": "entries",
    "split_tap": "names",
    "symbolic_inputs": "layers",
    "tapped": "tapping",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
