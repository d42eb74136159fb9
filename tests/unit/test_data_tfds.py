"""GLUE through TensorFlow Datasets, without downloading it."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets

from kdkit.data.tfds import TfdsLayout, read_tfds
from kdkit.tasks import TASKS

PAIRS = TfdsLayout("glue/mrpc", ("sentence1", "sentence2"))


@pytest.fixture
def fake_load(monkeypatch):
    """Lets `tensorflow_datasets.load` return the given columns."""
    calls = []

    def install(columns):
        def load(name, split):
            calls.append((name, split))
            return tf.data.Dataset.from_tensor_slices(columns)

        monkeypatch.setattr(tensorflow_datasets, "load", load)
        return calls

    return install


def test_read_tfds_returns_texts_and_labels(fake_load):
    calls = fake_load(
        {
            "idx": [0, 1],
            "label": np.array([1, 0], "int64"),
            "sentence1": ["caf\u00e9 ", "c"],
            "sentence2": ["b", "d"],
        }
    )
    examples = read_tfds(PAIRS, "dev")
    assert calls == [("glue/mrpc", "validation")]
    assert examples.texts == (["caf\u00e9", "c"], ["b", "d"])
    np.testing.assert_array_equal(examples.labels, [1, 0])
    assert examples.labels.dtype == np.int32


def test_read_tfds_keeps_scores(fake_load):
    fake_load(
        {
            "label": np.array([1.5, 4.0], "float32"),
            "sentence1": ["a", "c"],
            "sentence2": ["b", "d"],
        }
    )
    labels = read_tfds(TASKS["stsb"].tfds, "train").labels
    np.testing.assert_array_equal(labels, [1.5, 4.0])
    assert labels.dtype == np.float32


@pytest.mark.parametrize("hidden", [np.int64(-1), np.float32(-1)])
def test_read_tfds_leaves_out_hidden_labels(fake_load, hidden):
    fake_load(
        {
            "label": [hidden, hidden],
            "sentence1": ["a", "c"],
            "sentence2": ["b", "d"],
        }
    )
    assert read_tfds(PAIRS, "test").labels is None
