"""Every exporter with every kind of model: one contract for all formats."""

import functools
import itertools
import os
import pathlib
import shutil

import numpy as np
import pytest
from kit.helpers import decoder, with_random_weights
from kit.references import reference

from kdkit import export, models
from kdkit.errors import RunError
from kdkit.export import exporters

EXPORTERS = {exporter.name: exporter for exporter in export.all_exporters()}
KINDS = ("encoder", "bilstm", "decoder", "encoder_decoder")
# The rest runs in `make test-large`: other tests here and in tests/decoding/
# write the same LiteRT files.
QUICK = {
    ("litert", "decoder", "fp32"),
    ("onnx", "encoder", "int8"),
    ("onnx", "decoder", "fp32"),
    ("saved_model", "encoder", "fp32"),
}
CASES = [
    pytest.param(
        *case,
        marks=() if case in QUICK else pytest.mark.large,
        id="-".join(case),
    )
    for case in itertools.product(EXPORTERS, KINDS, export.PRECISIONS)
    if case[1] in ("bilstm", *EXPORTERS[case[0]].kinds)  # which is an encoder
    and case[2] in EXPORTERS[case[0]].precisions
    and not EXPORTERS[case[0]].is_checkpoint
]
# Checkpoints contain no BiLSTM: tests/export/test_export_hugging_face.py.
every_exporter = pytest.mark.parametrize(
    "format", [name for name, one in EXPORTERS.items() if not one.is_checkpoint]
)


@pytest.fixture(autouse=True)
def onnx_packages(request):
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and callspec.params.get("format") == "onnx":
        for name in ("onnxruntime", "tf2onnx"):
            reference(name)


@pytest.fixture(scope="module")
def of_kind(bert, lstm):
    """A model of each kind."""
    backbone = models.MassBackbone(120, 1, 1, 2, 32, 40, max_sequence_length=12)
    return {
        "encoder": bert,
        "bilstm": lstm,
        "decoder": decoder(1, vocabulary_size=120, hidden_dim=32),
        "encoder_decoder": with_random_weights(
            models.MassSeq2SeqLM(backbone), scale=0.2
        ),
    }


@pytest.fixture(scope="module")
def bilstm_files(lstm, tmp_path_factory):
    """Writes the model in a format, once; returns the report."""
    folder = tmp_path_factory.mktemp("bilstm")

    @functools.cache
    def written(format):
        path = file_of(EXPORTERS[format], folder)
        return export.export_model(lstm, path, format)

    return written


def file_of(exporter, folder, precision="fp32"):
    return folder / exporter.file_name("student", precision)


@pytest.mark.parametrize(("format", "kind", "precision"), CASES)
def test_a_file_is_the_model_and_says_so(
    format, kind, precision, of_kind, tmp_path
):
    exporter = EXPORTERS[format]
    path = file_of(exporter, tmp_path, precision)
    model = of_kind[kind]
    report = export.export_model(model, path, format, precision=precision)
    assert (report.format, report.precision) == (format, precision)
    assert report.title == exporter.title
    limit = {"fp32": 1e-4, "fp16": 0.1, "int8": 1.0}[precision]
    assert report.max_abs_difference <= limit
    assert report.same_top_class >= (1 if precision == "fp32" else 0.75)
    assert os.listdir(tmp_path) == [path.name]
    assert export.exporter_of(path) is exporter
    file = export.open_file(path)
    assert file.kind in (kind, "encoder")
    assert file.path == path
    if exporter.takes_threads:
        assert file.metadata.precision == precision
        assert file.metadata.parameters == model.count_params()
        length = 8 if file.kind == "encoder" else None
        measured = export.measure_latency(path, length, warmup=0, runs=1)
        assert measured.median_ms > 0
    if file.kind == "encoder":
        assert set(file.input_names) == set(model.input)


@every_exporter
def test_a_bilstm_is_written_for_any_length(
    format, bilstm_files, lstm, make_batch, logits
):
    report = bilstm_files(format)
    assert report.max_abs_difference <= 1e-4
    file = export.open_file(report.file)
    for shape in ((3, 8), (1, 21)):
        batch = make_batch(*shape)
        np.testing.assert_allclose(file(batch), logits(lstm, batch), atol=1e-4)


@every_exporter
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda x: x + 0.01, "differ from the Keras model's by 0.01"),
        (lambda x: x * np.nan, "NaN or infinity"),
        (lambda x: x[:, :1], "wrong shape"),
    ],
    ids=["other", "nan", "shape"],
)
def test_a_file_that_is_not_the_model_is_not_left(
    format, change, problem, bilstm_files, lstm, tmp_path, monkeypatch
):
    exporter = EXPORTERS[format]
    written = pathlib.Path(bilstm_files(format).file)
    copy = shutil.copytree if written.is_dir() else shutil.copyfile
    monkeypatch.setattr(
        exporter, "write", lambda source, path, precision: copy(written, path)
    )
    monkeypatch.setattr(exporter, "annotate", lambda path, entry: None)
    monkeypatch.setattr(exporter, "run", lambda file, x: change(file(x)))
    with pytest.raises(RunError, match=f"was not written.*{problem}"):
        export.export_model(lstm, file_of(exporter, tmp_path), format)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def own_format(monkeypatch):
    """An exporter of a user's own, which is forgotten after the test."""
    monkeypatch.setattr(exporters, "_EXPORTERS", dict(exporters._EXPORTERS))

    @export.register_exporter("weights")
    class Weights(export.Exporter):
        title = "Weights"
        suffix = ".mine"

        def write(self, source, path, precision):
            with open(path, "wb") as file:
                np.savez(file, *source.model.get_weights())
            self.written = source.model

        def open(self, path, threads=1):
            file = export.BatchFile()
            file.path, file.input_names = path, tuple(self.written.input)
            file.set_inputs = lambda batch: setattr(file, "batch", batch)
            file.invoke = lambda: None
            file.output = lambda: self.written(file.batch)
            return file

    return Weights


def test_a_user_registers_an_exporter(own_format, lstm, tmp_path):
    report = export.export_model(lstm, tmp_path / "student.mine")
    assert (report.format, report.title) == ("weights", "Weights")
    assert report.max_abs_difference == 0
    assert export.measure_latency(report.file, warmup=0, runs=1).runs == 1


def test_onnx_runtime_reads_named_inputs_of_any_size(bert, tmp_path):
    onnxruntime = reference("onnxruntime")
    reference("tf2onnx")
    report = export.to_onnx(bert, tmp_path / "student.onnx")
    session = onnxruntime.InferenceSession(
        report.file, providers=["CPUExecutionProvider"]
    )
    axes = ["batch_size", "sequence_length"]
    assert {i.name: i.shape for i in session.get_inputs()} == {
        "token_ids": axes,
        "segment_ids": axes,
        "padding_mask": axes,
    }
    (output,) = session.get_outputs()
    assert (output.name, output.shape) == ("logits", ["batch_size", 2])


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_onnx_files_read_matrices_in_products_and_lookups(
    bert, precision, tmp_path
):
    onnx = reference("onnx")
    reference("tf2onnx")
    report = export.to_onnx(bert, tmp_path / "student.onnx", precision)
    graph = onnx.load(report.file).graph
    floats = {
        tensor.name
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1
    }
    users = {
        node.op_type for node in graph.node if floats.intersection(node.input)
    }
    # Biases, normalizations and the table of positions stay float32.
    in_float32 = {"Add", "Mul", "Slice"}
    matrices = {"Gather", "Gemm", "MatMul"} if precision == "fp32" else set()
    assert users == in_float32 | matrices
