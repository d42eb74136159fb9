"""Exported files of embedders, against NumPy, MediaPipe and ONNX Runtime."""

import importlib.util

import numpy as np
import pytest
from kit.encoders import SENTENCES, encoder, tokenizer

from kdkit import data, export, models
from kdkit.errors import RunError, UsageError
from kdkit.export.verification import compare

LENGTH = 12
TEXTS = [*SENTENCES, "", "the plot , the end"]


def batch_of(texts=TEXTS):
    rows = data.encode(data.Examples((list(texts),)), tokenizer("bert"), LENGTH)
    return rows.inputs(np.arange(len(rows)), LENGTH)


def vectors(model, batch):
    names = list(model.input)
    return np.asarray(model({name: batch[name] for name in names}))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def embedder():
    sizes = {"num_layers": 1, "hidden_dim": 32, "intermediate_dim": 64}
    backbone = encoder("bert", None, **sizes)
    return models.make_embedder(backbone, models.Pooling("mean"))


@pytest.fixture(scope="module")
def mapped(embedder):
    """An embedder whose vectors have dense layers and no length of 1."""
    dense = (models.DenseSettings(10, activation="tanh"),)
    pooling = models.Pooling("max", normalize=False, dense=dense)
    return models.make_embedder(models.backbone_of(embedder), pooling)


@pytest.fixture(scope="module")
def exported(embedder, tmp_path_factory):
    """A function from a precision to the report of the embedder's file."""
    folder, reports = tmp_path_factory.mktemp("embedders"), {}

    def report(precision):
        if precision not in reports:
            reports[precision] = export.to_litert(
                embedder,
                folder / f"{precision}.tflite",
                precision,
                LENGTH,
                [batch_of()],
                mediapipe=True,
                tokenizer=tokenizer("bert"),
            )
        return reports[precision]

    return report


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_files_contain_pooling_and_normalization(embedder, exported, precision):
    report = exported(precision)
    file, expected = (
        export.open_file(report.file),
        vectors(embedder, batch_of()),
    )
    assert file.outputs == report.outputs == "sentence_embedding"
    assert report.dimensions == 32
    assert report.same_top_class is None
    found = file(batch_of())
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    cosines = (unit(found) * unit(expected)).sum(axis=1)
    assert report.smallest_cosine == pytest.approx(cosines.min(), abs=1e-6)
    assert report.mean_cosine == pytest.approx(cosines.mean(), abs=1e-6)
    if precision == "fp32":
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        assert 0.9 < cosines.min() < 0.99999
        assert report.size_bytes < exported("fp32").size_bytes
    with pytest.raises(UsageError, match="returns sentence embeddings"):
        file.logits(batch_of())


def test_files_have_the_first_dimensions(embedder, mapped, tmp_path):
    for model, after in ((embedder, unit), (mapped, np.asarray)):
        path = tmp_path / "file.tflite"
        report = export.to_litert(
            model, path, sequence_length=LENGTH, dimensions=7, overwrite=True
        )
        assert report.dimensions == 7
        np.testing.assert_allclose(
            export.open_file(path)(batch_of()),
            after(vectors(model, batch_of())[:, :7]),
            atol=1e-5,
        )


def test_mediapipe_embeds_strings(embedder, exported):
    if importlib.util.find_spec("mediapipe") is None:
        pytest.skip("needs mediapipe: pip install '.[tests]'")
    from mediapipe.tasks.python import BaseOptions, text

    place = BaseOptions(model_asset_path=exported("fp32").file)
    options = text.TextEmbedderOptions(base_options=place)
    with text.TextEmbedder.create_from_options(options) as theirs:
        found = [theirs.embed(one).embeddings[0].embedding for one in TEXTS]
    np.testing.assert_allclose(found, vectors(embedder, batch_of()), atol=1e-5)


def test_onnx_files_have_the_vectors(embedder, tmp_path):
    """Keras Hub's max pooling contains a constant that is a tensor."""
    backbone = models.backbone_of(embedder)
    pooled = models.make_embedder(backbone, models.Pooling("max"))
    pytest.importorskip("tf2onnx", reason="needs pip install '.[onnx]'")
    onnxruntime = pytest.importorskip("onnxruntime")
    report = export.to_onnx(pooled, tmp_path / "file.onnx", dimensions=6)
    session = onnxruntime.InferenceSession(report.file)
    (output,) = session.get_outputs()
    assert (output.name, output.shape[1]) == ("sentence_embedding", 6)
    batch = batch_of()
    names = [given.name for given in session.get_inputs()]
    (found,) = session.run(None, {name: batch[name] for name in names})
    expected = unit(vectors(pooled, batch)[:, :6])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert export.open_file(report.file).outputs == "sentence_embedding"


def test_vectors_in_other_directions_refuse_a_file():
    expected = [np.eye(3, dtype="float32")]
    turned = expected[0] + np.array([0, 1, 0], "float32")

    def compared(precision, output):
        outputs = "sentence_embedding"
        file = lambda batch: output  # noqa: E731
        return compare(expected, file, [{}], "f", precision, outputs)

    for precision in ("fp32", "int8"):
        with pytest.raises(RunError, match="f was not written: its "):
            compared(precision, turned)
    assert compared("int8", 2 * expected[0]).smallest_cosine == 1
    with pytest.raises(RunError, match="differ from the Keras model's by 1"):
        compared("fp32", 2 * expected[0])
