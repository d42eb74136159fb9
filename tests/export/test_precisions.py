"""Quantised files: types, accuracy, and the student that rounds."""

import contextlib
import pathlib
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.schema_py_generated import ModelT, TensorType
from kit.exported import (
    INPUTS,
    LENGTH,
    QUANTIZED,
    SIZES,
    Memory,
    classifier,
    model_of,
    outputs,
    rows,
)
from kit.helpers import decoder, python_blocks, with_random_weights

from kdkit import export
from kdkit.quantization import (
    PRECISIONS,
    FakeQuantization,
    active_quantization,
)

pytest.importorskip("ai_edge_quantizer")
WIDTH, WIDE = SIZES["hidden_dim"], SIZES["intermediate_dim"]
# The last batch alone has smaller ranges.
SEEN = [rows(48, LENGTH, 1), rows(16, LENGTH, 2), rows(1, LENGTH, 3)]
MEASURED = rows(256, LENGTH, 4)


@contextlib.contextmanager
def rounding(model, precision):
    """The model rounds as its file will do; nothing without such training."""
    if precision not in PRECISIONS:
        yield None
        return
    quantization = FakeQuantization(precision, SEEN)
    quantization.apply(model)
    try:
        yield quantization
    finally:
        quantization.remove()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """By precision: a report, and the outputs of file, student and teacher.

    The teacher is the same model, which does not round.
    """
    folder, model = tmp_path_factory.mktemp("files"), model_of("classifier")
    found = {}
    for precision in QUANTIZED:
        path = folder / f"{precision}.tflite"
        with rounding(model, precision) as quantization:
            report = export.to_litert(
                *(model, path, precision, LENGTH),
                verification_data=[MEASURED],
                calibration_data=SEEN,
            )
            assert active_quantization(model) is quantization
            rounded = outputs(model, MEASURED)
        received = export.open_file(path)(MEASURED)
        found[precision] = report, received, rounded, outputs(model, MEASURED)
    return found


def stored(path, *shape):
    """The types in which a file stores constants of a shape."""
    content = bytearray(pathlib.Path(path).read_bytes())
    model = ModelT.InitFromPackedBuf(content, 0)
    return {
        tensor.buffer: tensor.type
        for graph in model.subgraphs
        for tensor in graph.tensors
        if np.array_equal(tensor.shape, shape)
        and model.buffers[tensor.buffer].data is not None
    }.values()


def test_ranges_are_those_of_all_batches():
    """However the rows are divided into batches."""
    whole = {
        name: np.concatenate([one[name] for one in SEEN]) for name in INPUTS
    }
    found = []
    for batches in (SEEN, [whole]):
        quantization = FakeQuantization("static_int8", batches)
        quantization.apply(model_of("classifier"))
        quantization.remove()
        found.append(keras.tree.flatten(quantization.ranges))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_file_computes_what_the_student_that_rounds_computes(
    precision, files
):
    report, found, rounded, exact = files[precision]
    far, near = (np.abs(found - one) for one in (exact, rounded))
    # A value at the border of two steps may round to either.
    assert near.mean() < far.mean() / 5
    assert np.median(near) < np.median(far) / 50
    assert report.max_abs_difference == pytest.approx(near.max(), abs=1e-4)
    assert report.max_abs_difference < 0.3 * rounded.std()
    assert report.same_top_class > 0.98


def test_a_head_of_the_shape_of_a_table_has_4_bits(tmp_path):
    """As in the student that rounds: 2 classes, and 2 segments in 8 bits."""
    model = with_random_weights(classifier(2), scale=0.2)
    path = tmp_path / "two.tflite"
    with rounding(model, "int4"):
        export.to_litert(model, path, "int4", LENGTH)
        near = np.abs(
            export.open_file(path)(MEASURED) - outputs(model, MEASURED)
        )
    assert np.median(near) < 1e-4
    assert {*stored(path, 2, WIDTH)} == {TensorType.INT4, TensorType.INT8}


def test_a_file_is_verified_against_the_model_that_does_not_round(tmp_path):
    model, format = model_of("classifier"), Memory()
    exact, found = outputs(model, MEASURED), []
    format.verify = lambda *_: found.append(outputs(model, MEASURED))
    with rounding(model, "int4"):
        format.export(model, tmp_path / "m.memory")
    np.testing.assert_array_equal(*found, exact)


def test_16_bits_are_nearer_to_keras_than_8(files):
    far = {
        precision: np.abs(found - exact).mean()
        for precision, (_, found, _, exact) in files.items()
    }
    assert far["int16x8"] < far["static_int8"] < far["int4"]
    assert files["int16x8"][0].same_top_class > 0.95


@pytest.mark.parametrize("precision", QUANTIZED)
def test_quantised_files_have_the_types_that_they_promise(
    precision, files, written
):
    path = files[precision][0].file
    assert export.open_file(path).metadata.precision == precision
    runner = Interpreter(path)
    (output,) = runner.get_output_details()
    inputs = {np.dtype(one["dtype"]) for one in runner.get_input_details()}
    assert (inputs, output["dtype"]) == ({np.dtype("int32")}, np.float32)
    table = model_of("classifier").backbone.token_embedding.embeddings.shape
    assert [*stored(written("litert").file, *table)] == [TensorType.FLOAT32]
    assert [*stored(path, *table)] == [TensorType.INT8]
    bits = TensorType.INT4 if precision == "int4" else TensorType.INT8
    for shape in ((WIDTH, WIDTH), (WIDE, WIDTH), (WIDTH, WIDE)):
        assert set(stored(path, *shape)) == {bits}


def test_other_precisions_do_not_change(files, written, tmp_path):
    """The same outputs, after all quantised files, of a model that rounds."""
    model, path = model_of("classifier"), tmp_path / "again.tflite"
    with rounding(model, "int4"):
        report = export.to_litert(model, path, calibration_data=SEEN)
    assert report.max_abs_difference < 1e-4
    before = export.open_file(written("litert").file)(MEASURED)
    np.testing.assert_array_equal(export.open_file(path)(MEASURED), before)


@pytest.mark.large
def test_a_decoder_in_int4_has_one_table_of_tokens_in_8_bits(tmp_path):
    model = decoder(1, vocabulary_size=120, hidden_dim=32)
    report = export.to_litert(model, tmp_path / "m.tflite", "int4")
    assert report.same_top_class >= 0.6
    assert [*stored(report.file, 120, 32)] == [TensorType.INT8]


@pytest.mark.large
def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("quantization_aware")
    data = tf.data.Dataset.from_tensor_slices((MEASURED, np.zeros(256)))
    data = data.take(32)
    names = {
        "teacher": classifier(),
        "student": classifier(),
        "train": data.shuffle(32, seed=0).batch(8),
        "dev": data.batch(8),
    }
    # The data is the same in each epoch.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*shuffle")
        exec(block, names)
    assert names["report"].same_top_class > 0.9
    assert active_quantization(names["student"]) is None
