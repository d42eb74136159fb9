"""The contract of files: a row for each, and the same tests for all."""

import pathlib
import shutil

import numpy as np
import pytest
from kit.exported import (
    FILES,
    IMAGES,
    LARGE_FILES,
    LENGTH,
    model_of,
    outputs,
    rows,
)
from kit.helpers import large_except
from kit.references import reference

from kdkit import export

CASES = large_except([*FILES, *LARGE_FILES], *FILES)
FORMATS = ("litert", "onnx", "saved_model")
# How far outputs may be from Keras', in a precision or a file.
LIMITS = {"fp32": 1e-4, "fp16": 0.1, "int8": 1.0}
LIMITS |= {"litert_image": 0.1, "saved_model_mapped": 0.01}
LIMITS |= {"onnx_decoder_int8": 6.0}  # 5.1 where products of int8 saturate


@pytest.fixture(autouse=True)
def onnx_packages(request):
    parameters = getattr(request.node, "callspec", None)
    if parameters and "onnx" in "".join(map(str, parameters.params.values())):
        for name in ("onnxruntime", "tf2onnx"):
            reference(name)


def batches(row, file):
    """Batches of several shapes, in which a file has its own length too."""
    if row.kind == "image":
        return [IMAGES, IMAGES[:1]]
    length = file.sequence_length
    shapes = [(3, 8), (1, 21), (1, 21)] if length is None else [(3, length)]
    if row.kind in ("classifier", "embedder") and length:
        shapes.append((2, length - 7))  # is padded
    return [rows(*shape, seed=sum(shape)) for shape in shapes]


def test_every_format_has_a_row():
    formats = {row.format for row in FILES.values()}
    assert {row.format for row in LARGE_FILES.values()} <= formats


@pytest.mark.parametrize("name", CASES)
def test_a_file_is_the_model_and_says_so(name, written):
    row, report = (FILES | LARGE_FILES)[name], written(name)
    path, exporter = pathlib.Path(report.file), export.get_exporter(row.format)
    assert [*path.parent.iterdir()] == [path]
    assert export.exporter_of(path) is exporter
    files = [one for one in (path, *path.rglob("*")) if one.is_file()]
    facts = (report.format, report.title, report.precision, report.size_bytes)
    size = sum(file.stat().st_size for file in files)
    assert facts == (row.format, exporter.title, row.precision, size)
    assert report.examples >= 16
    if report.same_top_class is not None:
        least = {"fp32": 1, "int4": 0.5}.get(row.precision, 0.75)
        assert report.same_top_class >= least
    file = export.open_file(path)
    assert (file.path, file.sequence_length) == (path, report.sequence_length)
    assert file.metadata.precision == row.precision
    assert file.metadata.parameters == row.model.count_params()
    assert report.outputs == getattr(file, "outputs", "logits")
    if exporter.takes_threads:
        length = None if row.kind == "image" else report.sequence_length or 8
        measured = export.measure_latency(
            path, sequence_length=length, warmup=0, runs=1
        )
        assert measured.median_ms > 0
    if "decoder" in row.kind and row.format == "litert":
        assert file.kind == row.kind  # see test_decoder_files.py
        return
    fixed = 4 if row.kind == "reader" else row.options().get("sequence_length")
    assert file.sequence_length == fixed
    assert file.kind == ("tensors" if row.kind == "image" else "encoder")
    names = {"reader": ["token_ids"], "image": [*file.input_names]}
    inputs = names.get(row.kind) or [*row.model.input]
    assert sorted(file.input_names) == sorted(inputs)
    limit = LIMITS.get(name, LIMITS.get(row.precision, 99.0))
    for batch in batches(row, file):
        found, expected = file(batch), row.expected(batch)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=limit, rtol=0)


def test_vectors_are_vectors_and_probabilities_have_logits(written):
    report = written("litert_embedder")
    assert (report.outputs, report.dimensions) == ("sentence_embedding", 64)
    assert report.smallest_cosine == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="sentence embeddings"):
        export.open_file(report.file).logits(rows(2, LENGTH))
    assert written("onnx_embedder").dimensions == 6
    for name, atol in (("litert_bilstm", 1e-4), ("litert_int8", 1.0)):
        file, batch = export.open_file(written(name).file), rows(3, LENGTH)
        found = file.logits(batch)
        expected = outputs(FILES[name].model, batch)
        if file.outputs == "softmax":  # up to a constant
            found, expected = (np.diff(one) for one in (found, expected))
        np.testing.assert_allclose(found, expected, atol=atol)


def contents(folder):
    return {
        path: path.is_file() and path.read_bytes() for path in folder.rglob("*")
    }


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_is_not_the_model_is_not_left(
    format, written, tmp_path, monkeypatch
):
    """What had the name before is still there."""
    exporter, source = export.get_exporter(format), written(format).file
    copy = shutil.copytree if format == "saved_model" else shutil.copyfile
    path = tmp_path / exporter.file_name("student", "fp32")
    copy(source, path)
    before = contents(tmp_path)
    monkeypatch.setattr(exporter, "write", lambda _, to, __: copy(source, to))
    monkeypatch.setattr(exporter, "annotate", lambda *_: None)
    monkeypatch.setattr(exporter, "run", lambda file, x: file(x) + 0.01)
    with pytest.raises(RuntimeError, match="was not written.*0.01"):
        export.export_model(
            model_of("classifier"), path, format, overwrite=True
        )
    assert contents(tmp_path) == before
