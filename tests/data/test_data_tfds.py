"""GLUE through TensorFlow Datasets, without downloading it."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets

from kdkit.data import tfds
from kdkit.data.tfds import TfdsLayout, read_tfds
from kdkit.errors import UsageError
from kdkit.tasks import TASKS

PAIRS = TfdsLayout("glue/mrpc", ("sentence1", "sentence2"))


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(tfds, "_failures", {})


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


def test_download_that_fails_is_tried_once(monkeypatch):
    calls = []

    def load(name, split):
        calls.append(split)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tensorflow_datasets, "load", load)
    for split in ("train", "dev", "test"):
        with pytest.raises(UsageError, match="no route to host") as info:
            read_tfds(PAIRS, split)
        assert "--data-dir" in str(info.value)
        assert "glue/mrpc" in str(info.value)
    assert calls == ["train"]


def test_read_tfds_refuses_an_unknown_split():
    with pytest.raises(UsageError, match="Received: 'valid'"):
        read_tfds(PAIRS, "valid")
