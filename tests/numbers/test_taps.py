"""Taps of a forward pass, which leave the model as it was.

models/test_families.py has the taps of every family.
"""

import json

import keras
import numpy as np
import pytest
from kit.encoders import encoder
from kit.helpers import batch, bert, spread_weights, to_numpy

from kdkit import taps


def test_attention_of_a_row_of_padding_is_the_blocks_own():
    model = bert(num_classes=None)
    x = batch()
    x["padding_mask"][2] = 0
    outputs = taps.tapped(model, ["attention_probs", "hidden_states"])(x)
    block = model.transformer_layers[0]
    _, own_probs = block(
        outputs["hidden_states"][0],
        padding_mask=x["padding_mask"],
        return_attention_scores=True,
    )
    np.testing.assert_allclose(
        outputs["attention_probs"][0], own_probs, atol=1e-6
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_taps_of_half_precision_are_finite_and_exact(policy):
    model = bert(dtype=policy)
    x = batch()
    x["padding_mask"][2] = 0
    every_tap = taps.describe(model).taps
    outputs = to_numpy(
        keras.tree.map_structure(
            lambda tensor: keras.ops.cast(tensor, "float32"),
            taps.tapped(model, every_tap)(x, training=False),
        )
    )
    np.testing.assert_array_equal(
        outputs["logits"], keras.ops.cast(model(x, training=False), "float32")
    )
    for tensor in keras.tree.flatten(outputs):
        assert np.isfinite(tensor).all()


class Unbuildable(keras.optimizers.SGD):
    def build(self, variables):
        raise RuntimeError("slots for a model that is only tapped")


def test_tapping_leaves_the_model_as_it_was():
    model = bert(dropout=0.1)
    model.compile(optimizer=Unbuildable(), loss="mse")
    model.get_layer("classifier_dropout").trainable = False
    model.backbone.transformer_layers[0].trainable = False

    def state():
        return {
            "config": json.dumps(model.get_config(), default=str),
            "weights": [id(weight) for weight in model.weights],
            "trainable": [layer.trainable for layer in model.layers],
            "trainable_weights": [
                weight.path for weight in model.trainable_weights
            ],
            "outputs": [id(layer.output) for layer in model.layers],
            "losses": len(model.losses),
            "optimizer": id(model.optimizer),
        }

    x = batch()
    values = model.get_weights()
    expected = to_numpy(model(x, training=False))
    before = state()
    run = taps.tapped(model, taps.describe(model).taps)
    run(x, training=True)
    assert state() == before
    keras.tree.map_structure(
        np.testing.assert_array_equal, model.get_weights(), values
    )
    np.testing.assert_array_equal(model(x, training=False), expected)
    # The graph can still be cut at any layer.
    head = keras.Model(model.input, model.get_layer("logits").output)
    np.testing.assert_array_equal(head(x, training=False), expected)


def test_dropout_is_on_in_training_and_later_weights_are_seen():
    model, x = bert(dropout=0.1), batch()
    run = taps.tapped(model, ["logits", "hidden_states"])
    quiet, noisy = (
        to_numpy(run(x, training=training)["logits"])
        for training in (False, True)
    )
    assert not np.allclose(quiet, noisy)
    np.testing.assert_array_equal(run(x)["logits"], quiet)
    spread_weights(model, seed=1)
    after = to_numpy(run(x)["logits"])
    assert not np.allclose(quiet, after)
    np.testing.assert_array_equal(after, model(x, training=False))


def test_inputs_that_the_model_lacks_are_left_out():
    model = encoder("distil_bert")
    x = batch()
    assert "segment_ids" not in model.input
    outputs = taps.tapped(model, ["logits", "hidden_states"])(x)
    del x["segment_ids"]
    np.testing.assert_array_equal(outputs["logits"], model(x, training=False))


def test_plain_models_have_logits_alone():
    inputs = keras.Input((4,))
    functional = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    sequential = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    x = np.ones((2, 4), "float32")
    for model in (functional, sequential):
        assert taps.describe(model) == taps.ModelShape(num_classes=3)
        outputs = taps.tapped(model, ["logits"])(x)
        assert list(outputs) == ["logits"]
        np.testing.assert_array_equal(outputs["logits"], model(x))
