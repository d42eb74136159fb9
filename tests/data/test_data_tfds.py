"""GLUE through TensorFlow Datasets, without downloading it."""

import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets

from kdkit.data import tfds
from kdkit.data.tfds import TfdsLayout, read_tfds
from kdkit.errors import UsageError
from kdkit.io import network
from kdkit.tasks import TASKS

PAIRS = TfdsLayout("glue/mrpc", ("sentence1", "sentence2"))


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(tfds, "_failures", {})
    monkeypatch.setattr(tfds, "_announced", set())
    monkeypatch.setattr(network, "_failures", {})


@pytest.fixture
def builder(monkeypatch, tmp_path):
    """A data set that was downloaded, for all names."""
    one = types.SimpleNamespace(
        is_prepared=lambda: True,
        data_path=tmp_path / "there",
        url_infos={"http://server.example/file": mock.Mock(size=7_000_000)},
    )
    monkeypatch.setattr(tensorflow_datasets, "builder", lambda name: one)
    return one


@pytest.fixture
def fake_load(monkeypatch, builder):
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


def test_download_that_fails_is_tried_once(monkeypatch, builder):
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


def test_without_a_network_no_download_is_tried(monkeypatch, builder, logged):
    builder.is_prepared = lambda: False
    asked = []

    def problem(address):
        asked.append(address)
        return "no route"

    monkeypatch.setattr(network, "_problem", problem)
    monkeypatch.setattr(tensorflow_datasets, "load", None)
    for split in ("train", "dev", "test"):
        with pytest.raises(UsageError, match="server.example cannot") as info:
            read_tfds(PAIRS, split)
        assert "Pass --data-dir" in str(info.value)
    assert len(asked) == 1
    assert logged() == (
        "Downloading glue/mrpc with TensorFlow Datasets to "
        f"{builder.data_path}, 7 MB."
    )


def test_data_set_that_is_there_is_not_announced(builder, logged):
    task = TASKS["mrpc"]
    task.announce_download()
    builder.is_prepared = lambda: False
    builder.url_infos = {}  # which it makes itself
    task.announce_download("some/folder")
    assert logged() == ""
    task.announce_download()
    assert logged().startswith("Downloading glue/mrpc with")


def test_read_tfds_refuses_an_unknown_split():
    with pytest.raises(UsageError, match="Received: 'valid'"):
        read_tfds(PAIRS, "valid")
