"""Every encoder family as a file, in every precision."""

import itertools

import numpy as np
import pytest
from kit.encoders import MAKERS, encoder
from kit.exported import outputs
from kit.helpers import LENGTH, batch, large_except
from kit.references import reference

from kdkit import export
from kdkit.quantization import PRECISIONS

WITH_SEGMENTS = ("bert", "albert", "electra")
FAMILIES = tuple(MAKERS)
QUANTIZED = ("int16x8", *PRECISIONS)


@pytest.mark.parametrize("family", large_except(FAMILIES, "albert"))
def test_litert_file_has_the_families_inputs_and_logits(family, tmp_path):
    model, path = encoder(family), tmp_path / "model.tflite"
    # LiteRT has no kernels for DeBERTa's positions at any length.
    fixed = LENGTH if family == "deberta_v3" else None
    report = export.to_litert(model, path, sequence_length=fixed)
    assert report.max_abs_difference < 1e-4
    file = export.LiteRTModel(path)
    assert ("segment_ids" in file.input_names) == (family in WITH_SEGMENTS)
    assert set(file.input_names) == set(model.input)
    expected = outputs(model, batch())
    np.testing.assert_allclose(file(batch()), expected, atol=1e-4)


@pytest.mark.large
@pytest.mark.parametrize("family", FAMILIES)
def test_onnx_file_has_the_families_inputs_and_any_length(family, tmp_path):
    """Those with exact GELU too, whose `Erfc` ONNX does not have."""
    for name in ("onnxruntime", "tf2onnx"):
        reference(name)
    model = encoder(family)
    report = export.to_onnx(model, tmp_path / "model.onnx")
    assert report.max_abs_difference < 1e-4
    assert set(export.ONNXModel(report.file).input_names) == set(model.input)


@pytest.mark.large
@pytest.mark.parametrize(
    ("family", "precision"), [*itertools.product(FAMILIES, QUANTIZED)]
)
def test_every_family_is_quantised(family, precision, tmp_path):
    report = export.to_litert(
        encoder(family),
        tmp_path / "m.tflite",
        precision,
        LENGTH,
        verification_data=[batch(64, seed=1)],
        calibration_data=[batch(64)],
    )
    assert report.same_top_class >= (0.5 if precision == "int4" else 0.8)
