"""Layers in the form for LiteRT compute what Keras computes."""

import keras
import numpy as np
import pytest
from keras import ops

from kdkit.export.inference import fast_layers

LENGTH, WIDTH = 6, 8


@pytest.fixture(params=[0.1, 0.0], ids=["dropout", "without"])
def attention(request):
    layer = keras.layers.MultiHeadAttention(2, 4, dropout=request.param)
    state = keras.Input((LENGTH, WIDTH))
    mask = keras.Input((1, LENGTH), dtype="bool")
    output = layer(state, state, attention_mask=mask)
    return keras.Model([state, mask], output)


def masks(*lengths):
    """A mask with as many real keys as given, for each row."""
    real = np.arange(LENGTH) < np.array(lengths)[:, None]
    return real[:, None]


@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["usual", "large"])
def test_attention_is_the_same_with_padding(attention, scale):
    rng = np.random.default_rng(0)
    # Scores of up to hundreds, and a row of padding alone.
    state = scale * rng.normal(size=(4, LENGTH, WIDTH)).astype("float32")
    batch = [state, masks(6, 3, 1, 0)]
    expected = ops.convert_to_numpy(attention(batch))
    with fast_layers(attention):
        found = ops.convert_to_numpy(attention(batch))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[3], expected[3], atol=1e-6)


def test_layers_are_as_before_afterwards(attention):
    before = {name: dict(vars(one)) for name, one in named(attention)}
    with pytest.raises(ZeroDivisionError), fast_layers(attention):
        raise ZeroDivisionError
    assert {name: dict(vars(one)) for name, one in named(attention)} == before


def named(model):
    return [(layer.name, layer) for layer in model.layers]
