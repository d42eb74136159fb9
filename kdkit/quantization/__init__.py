"""Quantisation-aware training: a Keras model that rounds as its file does."""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "FakeQuantization": "fake_quantization",
    "PRECISIONS": "precisions",
    "RANGES_FILE": "precisions",
    "active_quantization": "fake_quantization",
    "fake_quantize_activations": "rounding",
    "fake_quantize_bias": "rounding",
    "fake_quantize_embeddings": "rounding",
    "fake_quantize_rows": "rounding",
    "fake_quantize_weights": "rounding",
    "full_precision": "fake_quantization",
    "read_quantization": "fake_quantization",
    "require_precision": "precisions",
    "require_quantizable": "places",
    "rounds_as": "fake_quantization",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
