"""kdkit.export.inference: layers in LiteRT's form compute what Keras does."""

import keras
import numpy as np
import pytest

from kdkit.export.inference import fast_layers

LENGTH, WIDTH = 6, 8


@pytest.fixture(params=[0.1, 0.0], ids=["dropout", "without"])
def attention(request):
    layer = keras.layers.MultiHeadAttention(2, 4, dropout=request.param)
    state = keras.Input((LENGTH, WIDTH))
    mask = keras.Input((1, LENGTH), dtype="bool")
    return keras.Model([state, mask], layer(state, state, attention_mask=mask))


@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["usual", "large"])
def test_attention_is_the_same_with_padding(attention, scale):
    """Scores of up to hundreds, and a row of padding alone."""
    state = np.random.default_rng(0).normal(
        scale=scale, size=(4, LENGTH, WIDTH)
    )
    lengths = np.array([[[6]], [[3]], [[1]], [[0]]])
    batch = [state.astype("float32"), np.arange(LENGTH) < lengths]
    expected = np.asarray(attention(batch))
    with fast_layers(attention):
        found = np.asarray(attention(batch))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[3], expected[3], atol=1e-6)


def test_layers_are_as_before_afterwards(attention):
    def state():
        return {layer.name: dict(vars(layer)) for layer in attention.layers}

    before = state()
    with pytest.raises(ZeroDivisionError), fast_layers(attention):
        raise ZeroDivisionError
    assert state() == before
