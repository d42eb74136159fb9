"""What would be a wrong file or number in silence is refused."""

import types

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from kit.encoders import encoder, tokenizer
from kit.exported import (
    IMAGES,
    LABELS,
    LENGTH,
    Memory,
    embedder,
    model_of,
    rows,
    word_pieces,
)

from kdkit import data, export, models


def timed(name, **settings):
    return lambda at: export.measure_latency(at.written(name).file, **settings)


def litert(kind="classifier", *arguments, **settings):
    """Values that are functions are called first."""

    def call(at):
        model = getattr(at, kind, None) or model_of(kind)
        for name, value in settings.items():
            settings[name] = value() if callable(value) else value
        export.to_litert(model, at.path, *arguments, **settings)

    return call


def mediapipe(labels=LABELS, tokenizer=word_pieces):
    settings = {"mediapipe": True, "sequence_length": LENGTH}
    return litert(labels=labels, tokenizer=tokenizer, **settings)


def hugging_face(family):
    return lambda at: export.to_hugging_face(
        encoder(family), at.path, tokenizer(family)
    )


def cased():
    pieces = data.sentiment_vocabulary()
    return keras_hub.tokenizers.BertTokenizer(pieces, lowercase=False)


def longer():
    pieces = data.sentiment_vocabulary()
    return models.word_piece_tokenizer([*pieces, "another"], True)


def read(name, change):
    """Reads a batch that was changed, or an array."""

    def call(at):
        batch = change if isinstance(change, np.ndarray) else rows(2, 5)
        if isinstance(change, dict):
            batch |= change
        return export.open_file(at.written(name).file)(batch)

    return call


MISTAKES = {  # a call, and what its error names
    "precision": (litert("classifier", "int3"), "one of: int8"),
    "kind": (
        lambda at: export.to_saved_model(model_of("encoder_decoder"), at.path),
        "Unknown kind of model",
    ),
    "existing": (
        lambda at: export.to_litert(model_of("classifier"), at.old),
        "overwrite",
    ),
    "diary": (
        lambda at: export.to_saved_model(
            model_of("classifier"), at.mine, overwrite=True
        ),
        "another path",
    ),
    "format": (
        lambda at: export.export_model(model_of("bilstm"), at.path, "tflite"),
        "one of: litert",
    ),
    "suffix": (
        lambda at: export.export_model(model_of("bilstm"), at.mine / "m.bin"),
        r"\.onnx.* a SavedModel",
    ),
    "file": (lambda at: export.open_file(at.mine), "kind of file"),
    "outputs": (litert("classifier", outputs="tanh"), "'sigmoid' for a class"),
    "vectors": (litert("embedder", outputs="softmax"), "sentence_embedding"),
    "positions": (litert("classifier", sequence_length=41), "40 positions"),
    "length": (litert("seven", sequence_length=8), "7 positions"),
    "vocabulary": (litert("seven"), "verification_data"),
    "shapes": (read("litert", {"token_ids": [[1]]}), "shapes"),
    "floats": (read("litert", {"token_ids": np.ones((2, 5))}), "Cannot cast"),
    "image": (read("litert_image", np.ones((1, 5, 6))), "file that reads"),
    "dimensions": (litert("embedder", dimensions=65), "64 dimensions"),
    "no dimensions": (litert("embedder", dimensions=0), "64 dimensions"),
    "delegate": (timed("litert", delegate="gpu"), "xnnpack"),
    "other length": (timed("litert_int8", sequence_length=8), "other lengths"),
    "size": (timed("litert_image", sequence_length=6), "other lengths"),
    "batch size": (timed("litert_bilstm", batch_size=2), "batch_size=1"),
    "threads": (timed("saved_model", threads=7), "new process"),
    "no threads": (lambda at: Memory().limit_threads(1), None),
    "recurrent": (litert("bilstm", "int4"), "No int4 of a recurrent"),
    "cache": (litert("decoder", "static_int8"), "No static_int8 of a decoder"),
    "calibration": (litert("classifier", "static_int8"), "Received: 0"),
    "few rows": (
        litert("classifier", "int16x8", calibration_data=[rows(2, 5)]),
        "Received: 2",
    ),
    "no weights": (litert("half", "int4"), "no weights for int4"),
    "ranges": (
        litert(
            *("image", "static_int8"),
            calibration_data=[IMAGES],
            activation_ranges={"dens": None},
        ),
        "one of: .*dense",
    ),
    "strings": (
        lambda at: export.export_model(
            *(model_of("classifier"), at.path, "saved_model"),
            outputs="softmax",
            strings=True,
        ),
        "TextInputs",
    ),
    "scores": (
        lambda at: export.TextInputs(None, 8, outputs="tanh"),
        "'tanh'",
    ),
    "equal labels": (mediapipe(["one", "one", "two"]), "3 different"),
    "lines": (mediapipe(["a\nb", "c", "d"]), "one line"),
    "cased": (mediapipe(tokenizer=cased), "cased"),
    "longer": (mediapipe(tokenizer=longer), "pieces"),
    "own word pieces": (hugging_face("bert"), "than in BertTokenizer"),
    "truncation": (
        lambda at: export.to_sentence_transformers(
            embedder(), at.mine / "new", None, sequence_length=None
        ),
        "sequence_length",
    ),
}


@pytest.fixture(scope="module")
def at(written, tmp_path_factory):
    """Models, files, and places to write to."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "old.tflite").touch()
    (folder / "mine").mkdir()
    tf.constant(0)  # starts TensorFlow's threads
    tokens = keras.Input((7,), dtype="int32", name="token_ids")
    half = keras.layers.Rescaling(0.5)
    return types.SimpleNamespace(
        seven=keras.Model({"token_ids": tokens}, half(tokens)),
        half=keras.Sequential([keras.Input((4,)), half]),
        written=written,
        path=folder / "new.tflite",
        old=folder / "old.tflite",
        mine=folder / "mine",
    )


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, at):
    call, words = MISTAKES[name]
    kinds = ValueError, TypeError, NotImplementedError, UserWarning
    with pytest.raises(kinds, match=words):
        call(at)
    assert not at.path.exists()
    assert not list(at.mine.iterdir())
