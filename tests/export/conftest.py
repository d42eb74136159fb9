"""Tiny models with weights large enough to be quantised, and their files."""

import keras
import keras_hub
import numpy as np
import pytest

from kdkit import export

VOCABULARY_SIZE = 100


def _make_bert(num_classes=2, dtype=None, sizes=None, **arguments):
    """A BERT classifier whose logits are far from each other."""
    known = {
        "vocabulary_size": VOCABULARY_SIZE,
        "num_layers": 1,
        "num_heads": 4,
        "hidden_dim": 32,
        "intermediate_dim": 64,
        "max_sequence_length": 40,
    }
    backbone = keras_hub.models.BertBackbone(
        **known | (sizes or {}), dtype=dtype
    )
    model = keras_hub.models.BertTextClassifier(
        backbone, num_classes=num_classes, dropout=0.5, **arguments
    )
    rng = np.random.default_rng(0)
    model.set_weights(
        [
            weight + rng.normal(scale=0.2, size=weight.shape)
            for weight in model.get_weights()
        ]
    )
    return model


def _make_lstm(mask_dtype="int32"):
    """A bidirectional LSTM without segments."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype=mask_dtype, name="padding_mask")
    x = keras.layers.Embedding(VOCABULARY_SIZE, 16)(tokens)
    x = keras.layers.Bidirectional(keras.layers.LSTM(12))(
        x, mask=keras.ops.cast(mask, "bool")
    )
    x = keras.layers.Dropout(0.5)(x)
    logits = keras.layers.Dense(2)(x)
    return keras.Model({"token_ids": tokens, "padding_mask": mask}, logits)


def _make_batch(batch_size, sequence_length, seed=0):
    """Rows of unequal length."""
    rng = np.random.default_rng(seed)
    shape = (batch_size, sequence_length)
    lengths = rng.integers(1, sequence_length + 1, size=(batch_size, 1))
    real = np.arange(sequence_length) < lengths
    return {
        "token_ids": rng.integers(0, VOCABULARY_SIZE, shape) * real,
        "segment_ids": rng.integers(0, 2, shape) * real,
        "padding_mask": real,
    }


def _logits(model, batch):
    names = list(model.input)
    return np.asarray(
        model({name: batch[name].astype("int32") for name in names})
    )


@pytest.fixture(scope="session")
def make_bert():
    return _make_bert


@pytest.fixture(scope="session")
def make_lstm():
    return _make_lstm


@pytest.fixture(scope="session")
def make_batch():
    return _make_batch


@pytest.fixture(scope="session")
def logits():
    return _logits


@pytest.fixture(scope="session")
def bert():
    return _make_bert()


@pytest.fixture(scope="session")
def lstm():
    return _make_lstm()


@pytest.fixture(scope="session")
def preprocessor():
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        vocabulary=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    )
    return keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=8
    )


@pytest.fixture(scope="session")
def exported(bert, lstm, tmp_path_factory):
    """Reports of files by name, each written when a test first asks for it."""
    folder = tmp_path_factory.mktemp("exported")
    arguments = {
        "fp32": (bert, "fp32"),
        "fp16": (bert, "fp16"),
        "int8": (bert, "int8"),
        "fixed": (bert, "fp32", 24),
        "lstm": (lstm, "fp32"),
    }

    class Reports(dict):
        def __missing__(self, name):
            model, precision, *length = arguments[name]
            self[name] = export.to_litert(
                model, folder / f"{name}.tflite", precision, *length
            )
            return self[name]

    return Reports()
