"""Students with one input, sequential and subclassed ones too, as files."""

import keras
import numpy as np
import pytest
from keras import layers
from kit.helpers import large_except

from kdkit import export

IMAGES = np.random.default_rng(0).random((3, 6, 6, 2), "float32")


class Network(keras.Model):
    """A subclassed image model, large enough to be quantized."""

    def __init__(self):
        super().__init__(name="network")
        self.conv = layers.Conv2D(64, 3, activation="relu")
        self.pool = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(32)

    def call(self, x):
        return self.head(self.pool(self.conv(x)))


@pytest.fixture(scope="module")
def network():
    model = Network()
    model(IMAGES)
    return model


@pytest.fixture(scope="module")
def reader():
    return keras.Sequential(
        [keras.Input((4,)), layers.Embedding(9, 3), layers.GRU(4)]
    )


@pytest.mark.parametrize("precision", large_except(export.PRECISIONS, "int8"))
def test_subclassed_image_model_is_a_litert_file(network, precision, tmp_path):
    path = tmp_path / "student.tflite"
    report = export.to_litert(network, path, precision)
    assert report.max_abs_difference < (1e-4 if precision == "fp32" else 0.1)
    assert (report.max_abs_difference > 0) or precision == "fp32"
    file = export.open_file(path)
    assert (file.kind, file.sizes) == ("tensors", (6, 6, 2))
    np.testing.assert_allclose(file(IMAGES), network(IMAGES), atol=0.1)
    np.testing.assert_array_equal(
        file({"inputs": IMAGES[:1]}), file(IMAGES[:1])
    )
    timed = export.measure_latency(path, runs=1, warmup=0)
    assert timed.median_ms > 0


@pytest.mark.parametrize("wrapped", [False, True], ids=["", "in_a_dict"])
def test_model_of_token_ids_is_a_file_of_token_ids(reader, wrapped, tmp_path):
    path, model = tmp_path / "student.tflite", reader
    if wrapped:
        ids = keras.Input((4,), dtype="int32", name="ids")
        model = keras.Model({"ids": ids}, reader(ids))
    export.to_litert(model, path)
    file = export.LiteRTModel(path)
    assert (file.kind, file.input_names) == ("encoder", ("token_ids",))
    assert (file.sequence_length, file.batch_size) == (4, 1)
    tokens = np.array([[1, 2, 3, 0], [8, 0, 0, 0]])
    np.testing.assert_allclose(
        file({"token_ids": tokens}), reader(tokens), atol=1e-5
    )


def test_a_masked_mean_is_verified_on_generated_batches(tmp_path):
    """Each generated row has a token, and no token is padding."""
    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 8, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )
    report = export.to_saved_model(model, tmp_path / "m")
    assert report.max_abs_difference < 1e-5


def test_images_of_any_size_need_batches(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((None, None, 1)),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )
    batches = [np.ones((2, 3, 4, 1)), (np.ones((1, 5, 5, 1)), np.zeros(1))]
    export.to_saved_model(model, tmp_path / "m", verification_data=batches)
    assert export.SavedModel(tmp_path / "m").sizes == (None, None, 1)
