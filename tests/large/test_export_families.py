"""Every encoder family is exported with its own inputs."""

import numpy as np
import pytest
from kit.encoders import encoder
from kit.helpers import LENGTH, batch, large_except
from kit.references import reference

from kdkit import export
from kdkit.models.families import FAMILIES

WITH_SEGMENTS = ("bert", "albert", "electra")


@pytest.mark.parametrize("family", large_except(FAMILIES, "albert"))
def test_litert_file_has_the_families_inputs_and_logits(family, tmp_path):
    model = encoder(family)
    path = tmp_path / "model.tflite"
    # LiteRT has no kernels for DeBERTa's positions at any length.
    fixed = LENGTH if family == "deberta_v3" else None
    report = export.to_litert(model, path, sequence_length=fixed)
    assert report.max_abs_difference < 1e-4
    file = export.LiteRTModel(path)
    assert ("segment_ids" in file.input_names) == (family in WITH_SEGMENTS)
    assert set(file.input_names) == set(model.input)
    x = {name: batch()[name] for name in model.input}
    np.testing.assert_allclose(file(batch()), model(x), atol=1e-4)


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
