"""Static int8, int8 x int16 and int4 files."""

import itertools
import pathlib

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.schema_py_generated import TensorType
from kit.encoders import encoder
from kit.helpers import LENGTH, batch, decoder, large_except

from kdkit import export
from kdkit.export import quantization
from kdkit.models.families import FAMILIES

QUANTIZED = quantization.PRECISIONS
# A model whose widths are multiples of a block of int4.
SIZES = {"hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128}


@pytest.fixture(scope="module")
def model(make_bert):
    return make_bert(sizes={**SIZES, "num_layers": 1}, num_classes=3)


@pytest.fixture(scope="module")
def rows(make_batch):
    return [make_batch(32, 24, seed=1)]


@pytest.fixture(scope="module")
def reports(model, rows, make_batch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantized")
    return {
        precision: export.to_litert(
            model,
            folder / f"{precision}.tflite",
            precision,
            24,
            verification_data=[make_batch(64, 24, seed=2)],
            calibration_data=rows,
        )
        for precision in ("fp32", *QUANTIZED)
    }


def stored(path, *shape):
    """The types in which a file stores constants of a shape."""
    model = quantization.Graphs(pathlib.Path(path).read_bytes()).model
    found = {
        tensor.buffer: tensor.type
        for graph in model.subgraphs
        for tensor in graph.tensors
        if np.array_equal(tensor.shape, shape)
        and model.buffers[tensor.buffer].data is not None
    }
    return list(found.values())


def test_quantised_files_agree_with_keras(reports):
    for precision in QUANTIZED:
        # Random weights lose more in 4 bits than trained ones.
        least = 0.5 if precision == "int4" else 0.85
        assert reports[precision].same_top_class >= least
        file = export.LiteRTModel(reports[precision].file)
        assert file.metadata.precision == precision
    differences = [
        reports[name].max_abs_difference
        for name in ("fp32", "int16x8", "static_int8")
    ]
    assert differences == sorted(differences)


def test_quantised_files_keep_their_inputs_and_float_logits(reports):
    for precision in QUANTIZED:
        runner = Interpreter(reports[precision].file)
        inputs = {np.dtype(d["dtype"]) for d in runner.get_input_details()}
        (output,) = runner.get_output_details()
        assert inputs == {np.dtype("int32")}
        assert output["dtype"] == np.float32


def test_tokens_have_8_bits_in_every_quantised_precision(model, reports):
    table = model.backbone.token_embedding.embeddings.shape
    assert stored(reports["fp32"].file, *table) == [TensorType.FLOAT32]
    for precision in QUANTIZED:
        assert stored(reports[precision].file, *table) == [TensorType.INT8]


def test_kernels_have_4_bits_in_int4_and_8_in_the_others(reports):
    width, wide = SIZES["hidden_dim"], SIZES["intermediate_dim"]
    for precision in QUANTIZED:
        bits = TensorType.INT4 if precision == "int4" else TensorType.INT8
        for shape in ((width, width), (wide, width), (width, wide)):
            assert set(stored(reports[precision].file, *shape)) == {bits}


@pytest.mark.large
def test_a_decoder_in_int4_has_one_table_of_tokens_in_8_bits(tmp_path):
    model = decoder(1, vocabulary_size=120, hidden_dim=32)
    report = export.to_litert(model, tmp_path / "m.tflite", "int4")
    assert report.same_top_class >= 0.6
    assert stored(report.file, 120, 32) == [TensorType.INT8]


@pytest.mark.parametrize("precision", large_except(["fp32", "fp16"], "fp32"))
def test_other_precisions_do_not_change_fp32_and_fp16(
    precision, model, reports, rows, tmp_path
):
    """Files before and after quantised ones of a model have the same bytes."""
    before = tmp_path / "before.tflite"
    if precision == "fp32":  # written before all the quantised ones
        before = pathlib.Path(reports["fp32"].file)
    else:
        export.to_litert(model, before, precision, 24)
        export.to_litert(
            model, tmp_path / "q.tflite", "int16x8", 24, calibration_data=rows
        )
    after = tmp_path / "after.tflite"
    export.to_litert(model, after, precision, 24, calibration_data=rows)
    assert after.read_bytes() == before.read_bytes()


@pytest.mark.parametrize("precision", large_except(QUANTIZED, "static_int8"))
def test_models_on_images_are_quantised(precision, tmp_path):
    keras.utils.set_random_seed(0)
    images = keras.Input((8, 8, 3), name="image")
    x = keras.layers.Conv2D(8, 3, activation="relu")(images)
    x = keras.layers.Flatten()(x)
    model = keras.Model(images, keras.layers.Dense(3)(x))
    data = np.random.default_rng(0).random((32, 8, 8, 3), "float32")
    report = export.to_litert(
        model, tmp_path / "m.tflite", precision, calibration_data=[data]
    )
    assert report.same_top_class >= 0.8


@pytest.mark.large
@pytest.mark.parametrize(
    ("family", "precision"),
    [*itertools.product(FAMILIES, QUANTIZED)],
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
