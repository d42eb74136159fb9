"""What would be a wrong file or number in silence is refused."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import decoder

from kdkit import export, models
from kdkit.errors import UsageError
from kdkit.export import inputs, quantization


def timed(name, **settings):
    return lambda at: export.measure_latency(at.exported[name].file, **settings)


def litert(model="bert", *arguments, **settings):
    return lambda at: export.to_litert(
        getattr(at, model), at.path, *arguments, **settings
    )


MISTAKES = {
    "precision": (litert("bert", "int3"), "one of: int8"),
    "kind": (
        lambda at: export.to_saved_model(at.mass, at.path),
        "Unknown kind of model",
    ),
    "existing": (lambda at: export.to_litert(at.bert, at.old), "overwrite"),
    "diary": (
        lambda at: export.to_saved_model(at.bert, at.mine, overwrite=True),
        "another path",
    ),
    "format": (
        lambda at: export.export_model(at.bert, at.path, "tflite"),
        "one of: litert",
    ),
    "suffix": (
        lambda at: export.export_model(at.bert, at.mine / "m.bin"),
        r"\.onnx.* a SavedModel",
    ),
    "file": (lambda at: export.open_file(at.mine), "kind of file"),
    "outputs": (litert("bert", outputs="tanh"), "'sigmoid' for a classifier"),
    "vectors": (
        litert("embedder", outputs="softmax"),
        "sentence_embedding of shape",
    ),
    "positions": (litert("bert", sequence_length=41), "40 positions"),
    "length": (litert("seven", sequence_length=8), "7 positions"),
    "vocabulary": (litert("seven"), "Pass verification_data"),
    "shapes": (lambda at: at.file(at.batch | {"token_ids": [[1]]}), "shapes"),
    "floats": (
        lambda at: at.file(at.batch | {"token_ids": np.ones((2, 5))}),
        "Cannot cast",
    ),
    "image": (
        lambda at: inputs.to_float32(np.ones((1, 5, 6)), "image", (6, 6)),
        "file that reads",
    ),
    "dimensions": (litert("embedder", dimensions=33), "32 dimensions"),
    "no dimensions": (litert("embedder", dimensions=0), "32 dimensions"),
    "delegate": (timed("fp32", delegate="gpu"), "xnnpack"),
    "other length": (timed("fixed", sequence_length=16), "other lengths"),
    "batch size": (timed("lstm", batch_size=2), "batch_size=1 only"),
    "threads": (
        lambda at: export.measure_latency(at.saved, threads=7),
        "in a new process",
    ),
    "no threads": (lambda at: export.Exporter().limit_threads(1), None),
    "recurrent": (litert("lstm", "int4"), "No int4 of a recurrent"),
    "cache": (
        lambda at: export.to_litert(decoder(1), at.path, "static_int8"),
        "No static_int8 of a decoder",
    ),
    "calibration": (litert("bert", "static_int8"), "Received: 0"),
    "few rows": (
        lambda at: export.to_litert(
            at.bert, at.path, "int16x8", calibration_data=[at.batch]
        ),
        "Received: 2",
    ),
    "no weights": (litert("half", "int4"), "no weights for int4"),
    "ranges": (
        lambda at: quantization._given(None, {"dens": None}, {"dense": 0}),
        "one of: dense",
    ),
    "strings": (
        lambda at: export.export_model(
            at.bert, at.path, "saved_model", outputs="softmax", strings=True
        ),
        "convert the outputs again",
    ),
    "scores": (
        lambda at: export.TextInputs(None, 8, outputs="tanh"),
        "Unknown output 'tanh'",
    ),
    "truncation": (
        lambda at: export.to_sentence_transformers(
            at.embedder, at.mine / "new", None, sequence_length=None
        ),
        "Pass sequence_length",
    ),
}


@pytest.fixture(scope="module")
def at(bert, lstm, exported, make_batch, tmp_path_factory):
    """Models, a file, and places to write to."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "old.tflite").touch()
    (folder / "mine").mkdir()
    (folder / "saved").mkdir()
    (folder / "saved" / "saved_model.pb").touch()
    tf.constant(0)  # starts TensorFlow's threads
    mass = models.MassBackbone(20, 1, 1, 2, 8, 8, max_sequence_length=8)
    tokens = keras.Input((7,), dtype="int32", name="token_ids")
    half = keras.layers.Rescaling(0.5)
    return types.SimpleNamespace(
        bert=bert,
        lstm=lstm,
        mass=models.MassSeq2SeqLM(mass),
        seven=keras.Model({"token_ids": tokens}, half(tokens)),
        half=keras.Sequential([keras.Input((4,)), half]),
        embedder=models.make_embedder(bert.backbone),
        exported=exported,
        file=export.LiteRTModel(exported["fp32"].file),
        batch=make_batch(2, 5),
        path=folder / "new.tflite",
        old=folder / "old.tflite",
        mine=folder / "mine",
        saved=folder / "saved",
    )


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, at):
    call, words = MISTAKES[name]
    kinds = UsageError, TypeError, NotImplementedError
    with pytest.raises(kinds, match=words):
        call(at)
    assert not at.path.exists()
    assert not list(at.mine.iterdir())
