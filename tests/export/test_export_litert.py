import dataclasses
import os

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from kit.helpers import large_except

from kdkit import export
from kdkit.backends import as_float32


def input_details(path):
    details = Interpreter(str(path)).get_input_details()
    return {
        detail["name"].removeprefix("serving_default_").split(":")[0]: detail
        for detail in details
    }


def test_to_litert_reports_the_fields_of_an_export_event(exported):
    report = exported["fp32"]
    fields = dataclasses.asdict(report)
    assert fields.pop("max_abs_difference") <= 1e-4
    assert fields == {
        "file": report.file,
        "format": "litert",
        "title": "LiteRT",
        "precision": "fp32",
        "size_bytes": os.path.getsize(report.file),
        "sequence_length": None,
        "same_top_class": 1.0,
        "examples": 16,
        "outputs": "logits",
        "smallest_cosine": None,
        "mean_cosine": None,
        "dimensions": None,
    }


def test_to_litert_files_take_named_int32_inputs(exported):
    details = input_details(exported["fp32"].file)
    assert set(details) == {"token_ids", "segment_ids", "padding_mask"}
    for detail in details.values():
        assert detail["dtype"] == np.int32
        assert detail["shape_signature"].tolist() == [-1, -1]


def test_to_litert_reports_what_quantisation_changed(exported):
    sizes = [exported[p].size_bytes for p in ("int8", "fp16", "fp32")]
    differences = [
        exported[p].max_abs_difference for p in ("fp32", "fp16", "int8")
    ]
    assert sizes == sorted(sizes)
    assert differences == sorted(differences)
    assert differences[-1] > 0
    assert 0.5 <= exported["int8"].same_top_class <= 1


@pytest.mark.parametrize("mask_dtype", large_except(["int32", "bool"], "bool"))
def test_to_litert_exports_recurrent_models_with_batch_size_1(
    mask_dtype, tmp_path, make_lstm
):
    model = make_lstm(mask_dtype)
    report = export.to_litert(model, tmp_path / "m.tflite")
    details = input_details(report.file)
    assert set(details) == {"token_ids", "padding_mask"}
    for detail in details.values():
        assert detail["dtype"] == np.int32
        assert detail["shape_signature"].tolist() == [1, -1]


def test_to_litert_exports_mixed_precision_as_float32(
    tmp_path, make_bert, make_batch, logits
):
    model = make_bert(dtype="mixed_float16")
    report = export.to_litert(model, tmp_path / "m.tflite")
    assert report.max_abs_difference <= 1e-4
    batch = make_batch(8, 12)
    received = export.LiteRTModel(report.file)(batch)
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, logits(model, batch), atol=0.02)


@pytest.mark.parametrize("dtype", ["mixed_float16", "float16", "bfloat16"])
def test_as_float32_copies_models_in_half_precision(
    dtype, make_bert, preprocessor
):
    model = make_bert(dtype=dtype, preprocessor=preprocessor)
    copy = as_float32(model)
    assert model.backbone.dtype_policy.name == dtype
    assert {layer.dtype_policy.name for layer in copy.layers} == {"float32"}
    for expected, received in zip(
        model.get_weights(), copy.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(expected.astype("float32"), received)


def test_to_litert_takes_the_length_of_a_model_with_fixed_inputs(tmp_path):
    tokens = keras.Input((7,), dtype="int32", name="token_ids")
    x = keras.layers.Flatten()(keras.layers.Embedding(20, 4)(tokens))
    model = keras.Model({"token_ids": tokens}, keras.layers.Dense(3)(x))
    report = export.to_litert(model, tmp_path / "m.tflite")
    assert report.sequence_length == 7


def test_to_litert_refuses_a_file_that_cannot_be_run(tmp_path):
    tokens = keras.Input((4,), dtype="int32", name="token_ids")
    x = keras.layers.Flatten()(keras.layers.Embedding(20, 16)(tokens))
    unused = keras.layers.Dense(64)
    x = keras.layers.Concatenate()([keras.layers.Dense(2)(x), unused(x)])
    model = keras.Model({"token_ids": tokens}, x[:, :2])
    # Not in the outputs, but the scale of these weights in int8 is NaN.
    unused.kernel.assign(np.full(unused.kernel.shape, np.nan))
    path = tmp_path / "m.tflite"
    path.write_text("old")
    with pytest.raises((RuntimeError, ValueError)):
        export.to_litert(model, path, "int8", overwrite=True)
    assert os.listdir(tmp_path) == ["m.tflite"]
    assert path.read_text() == "old"
