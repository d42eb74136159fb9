"""Quantisation-aware training: a Keras model that rounds as its file does."""

from kdkit.precisions import PRECISIONS, RANGES_FILE, require_precision
from kdkit.quantization.fake_quantization import (
    FakeQuantization,
    active_quantization,
    full_precision,
    read_quantization,
    rounds_as,
)
from kdkit.quantization.places import require_quantizable
from kdkit.quantization.rounding import (
    fake_quantize_activations,
    fake_quantize_bias,
    fake_quantize_embeddings,
    fake_quantize_rows,
    fake_quantize_weights,
)

__all__ = [
    "PRECISIONS",
    "RANGES_FILE",
    "FakeQuantization",
    "active_quantization",
    "fake_quantize_activations",
    "fake_quantize_bias",
    "fake_quantize_embeddings",
    "fake_quantize_rows",
    "fake_quantize_weights",
    "full_precision",
    "read_quantization",
    "require_precision",
    "require_quantizable",
    "rounds_as",
]
