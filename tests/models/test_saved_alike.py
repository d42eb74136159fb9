"""Equal models have equal files, whatever process saved them."""

import keras
import numpy as np
import pytest

from kdkit.models import forget_process


def make_lstm():
    """Two directions that share their initializers, as Keras makes them."""
    initializers = {
        "kernel_initializer": keras.initializers.RandomNormal(seed=0),
        "recurrent_initializer": keras.initializers.RandomNormal(seed=1),
    }
    return keras.Sequential(
        [
            keras.layers.Input((None, 3), name="rows"),
            keras.layers.Bidirectional(
                keras.layers.LSTM(2, name="lstm", **initializers),
                name="both_directions",
            ),
        ],
        name="model",
    )


@pytest.fixture
def saved(tmp_path):
    """Returns the files of two equal models, and the first model."""
    models = [make_lstm(), make_lstm()]
    models[1].set_weights(models[0].get_weights())
    files = [tmp_path / f"{number}.keras" for number in range(2)]
    for model, file in zip(models, files, strict=True):
        model.save(file)
    return files, models[0]


def test_models_that_are_alike_become_the_same_file(saved):
    files, _ = saved
    for file in files:
        forget_process(file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_file_loads_as_it_was(saved):
    (file, _), model = saved
    forget_process(file)
    loaded = keras.models.load_model(file)
    rows = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    np.testing.assert_array_equal(loaded(rows), model(rows))
