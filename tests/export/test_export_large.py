"""The full-size exported student: `make test-large`."""

import pytest

from kdkit import export, models


@pytest.mark.large
@pytest.mark.parametrize("precision", export.PRECISIONS)
def test_full_size_tinybert_exports_verified(precision, tmp_path):
    student = models.student("tinybert_4_layer_en_uncased", num_classes=2)
    report = export.to_litert(
        student,
        tmp_path / "student.tflite",
        precision=precision,
        sequence_length=64,
    )
    bytes_a_weight = {"fp32": 4, "fp16": 2, "int8": 1}[precision]
    assert report.size_bytes == pytest.approx(
        bytes_a_weight * student.count_params(), rel=0.05
    )
