"""Weights are counted without being created."""

import json
import math
import random

import keras
import pytest
from encoders import encoder
from helpers import decoder, large_except

from kdkit.models import student
from kdkit.models.families import FAMILIES
from kdkit.models.trust import count_config_weights, count_weights


def recurrent():
    inputs = keras.Input((6, 4), batch_size=2)
    states = keras.layers.LSTM(5, stateful=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(states))
    model.compile("adam", "mse")
    return model


MAKERS = {
    **{name: lambda name=name: encoder(name) for name in FAMILIES},
    "decoder": lambda: decoder(1),
    "bilstm": lambda: student("distilled_bilstm_en_uncased", num_classes=2),
    "recurrent": recurrent,
}


@pytest.mark.parametrize(
    "kind", large_except(MAKERS, "bert", "decoder", "recurrent")
)
def test_as_many_weights_are_counted_as_a_model_has(kind):
    model = MAKERS[kind]()
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    state = random.getstate()
    assert count_config_weights(config) == sum(
        math.prod(variable.shape) for variable in model.weights
    )
    assert random.getstate() == state


def test_what_cannot_be_built_is_not_counted():
    def build():
        raise RuntimeError("no")

    assert count_weights(build) is None


def test_no_memory_is_taken_for_what_is_counted():
    def build():
        model = keras.Sequential([keras.layers.Dense(10**6) for _ in range(3)])
        model.build((None, 10**6))
        return model

    assert count_weights(build) == 3 * (10**12 + 10**6)
