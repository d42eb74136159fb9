"""Noise on weights: LightPAFF's section 6.2, and restoring the weights."""

import keras
import numpy as np
import pytest
from helpers import decoder
from helpers import with_random_weights

from kdkit.errors import UsageError
from kdkit.models import perturbed

SIDE = 300  # of a matrix, so that its noise has a known deviation


@pytest.fixture(scope="module")
def model():
    generator = np.random.default_rng(0)
    model = keras.Sequential(
        [
            keras.Input((SIDE,)),
            keras.layers.Dense(SIDE),
            keras.layers.LayerNormalization(),
        ]
    )
    model.layers[0].set_weights(
        [
            generator.normal(-0.02, 0.05, (SIDE, SIDE)),
            generator.normal(size=SIDE),
        ]
    )
    return model


def noise(model, *arguments, **options):
    before = model.get_weights()
    with perturbed(model, *arguments, **options):
        return [
            after - weight
            for after, weight in zip(model.get_weights(), before, strict=True)
        ]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, lambda kernel: abs(kernel.mean())),
        ({"scale": "mean_magnitude"}, lambda kernel: np.abs(kernel).mean()),
    ],
    ids=["mean", "mean_magnitude"],
)
def test_noise_is_sigma_times_the_size_of_the_matrix(model, options, size):
    kernel = model.get_weights()[0]
    added, *others = noise(model, 1.5, 0, **options)
    np.testing.assert_allclose(added.std(), 1.5 * size(kernel), rtol=0.02)
    assert abs(added.mean()) < 5 * added.std() / SIDE
    for vector in others:
        np.testing.assert_array_equal(vector, 0)


def test_attention_gets_noise_on_its_kernels_and_not_on_its_biases():
    """Its biases have two axes: heads, and units of a head."""
    model = with_random_weights(decoder(1))
    names = [weight.path for weight in model.weights]
    added = dict(zip(names, noise(model, 1.0, 0), strict=True))
    assert any("query/bias" in name for name in names)
    for name, values in added.items():
        is_matrix = name.endswith(("kernel", "embeddings"))
        assert np.any(values) == is_matrix, name


def test_the_weights_come_back_also_after_an_error(model):
    before = model.get_weights()
    with pytest.raises(ZeroDivisionError), perturbed(model, 1.0, 0):
        _ = 1 / 0
    for weight, original in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, original)


def test_noise_is_a_function_of_the_seed_and_grows_with_sigma(model):
    first, second = (noise(model, 1.0, 3)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, noise(model, 1.0, 4)[0])
    np.testing.assert_allclose(noise(model, 2.0, 3)[0], 2 * first, atol=1e-6)
    np.testing.assert_array_equal(noise(model, 0.0, 3)[0], 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1.0, 0), "`sigma` must be a finite number of 0 or more"),
        ((float("nan"), 0), "Received: sigma=nan"),
        ((1.0, 0, "median"), "Received: scale='median'"),
    ],
)
def test_mistakes_are_named(model, arguments, words):
    with pytest.raises(UsageError, match=words), perturbed(model, *arguments):
        pass


def test_a_model_without_matrices_is_refused():
    model = keras.Sequential([keras.Input((2,)), keras.layers.ReLU()])
    with (
        pytest.raises(UsageError, match="trainable weight matrices"),
        perturbed(model, 1.0, 0),
    ):
        pass
