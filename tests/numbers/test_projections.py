"""Projections: which layers exist, and what they compute."""

import numpy as np
import pytest

from kdkit.distillation import Objective
from kdkit.distillation.objective import Projection
from kdkit.losses import HiddenStateMSE


def build(sharing, **arguments):
    projection = Projection(sharing, **arguments)
    return projection.build("hidden", 4, 6, pairs=[0, 1, 2])


def test_shared_projection_is_one_layer_for_all_pairs():
    layers = build("shared")
    assert list(layers) == [0, 1, 2]
    assert len({id(layer) for layer in layers.values()}) == 1
    assert layers[0].name == "hidden_projection"


def test_per_layer_projection_is_one_layer_per_pair():
    layers = build("per_layer")
    assert [layer.name for layer in layers.values()] == [
        "hidden_projection_0",
        "hidden_projection_1",
        "hidden_projection_2",
    ]


@pytest.mark.parametrize("use_bias", [True, False])
def test_projection_is_a_linear_map_to_the_teachers_width(use_bias):
    layer = build("shared", use_bias=use_bias)[0]
    assert len(layer.weights) == 1 + use_bias
    states = np.ones((2, 3, 4), "float32")
    bias = 0.0
    if use_bias:
        layer.bias.assign(np.arange(6))
        bias = np.arange(6)
    np.testing.assert_allclose(
        layer(states), states @ layer.kernel.numpy() + bias, rtol=1e-5
    )


def objective(projection):
    return Objective(
        HiddenStateMSE(), tap="hidden_states", projection=projection
    )
