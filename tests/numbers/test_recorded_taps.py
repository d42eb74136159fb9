"""Taps are tensors of the model's own calls: compiled, in replicas, in turn."""

import keras
import numpy as np
import pytest
from kit.backend import compiled, gradients_of, native, tensorflow_only
from kit.helpers import (
    TinyBackbone,
    batch,
    bert,
    classifier,
    spread_weights,
    to_numpy,
)

from kdkit import taps


def every_tap(model):
    return taps.tapped(model, taps.describe(model).taps)


def assert_close(found, expected):
    keras.tree.map_structure(
        lambda one, two: np.testing.assert_allclose(one, two, 1e-5, 1e-5),
        to_numpy(found),
        to_numpy(expected),
    )


def test_compiled_taps_of_two_traces_are_the_eager_ones():
    model = bert()
    run = every_tap(model)
    traced = compiled(run)
    for length in (6, 4, 6):
        x = batch(4, length)
        assert_close(traced(x), run(x))
    assert not any("call" in vars(layer) for layer in model._flatten_layers())


@tensorflow_only
@pytest.mark.parametrize("dtype", ["bool", "int32"])
@pytest.mark.parametrize("training", [False, True])
def test_replicas_record_their_own_examples(dtype, training):
    """Threads of replicas take turns where dropout counts its draws."""
    tf = native
    strategy = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()
    )
    with strategy.scope():
        model = bert(dropout=0.3)
    run = every_tap(model)
    x = batch(4)
    x["padding_mask"] = x["padding_mask"].astype(dtype)
    data = tf.data.Dataset.from_tensor_slices(x).batch(4)
    (rows,) = strategy.experimental_distribute_dataset(data)
    step = tf.function(
        lambda x: strategy.run(run, (x,), {"training": training})
    )
    local = strategy.experimental_local_results
    found = keras.tree.map_structure(
        lambda tensor: np.concatenate(local(tensor)), step(rows)
    )
    if not training:
        assert_close(found, run(x))
    np.testing.assert_allclose(
        model.backbone.get_layer("pooled_dense")(found["cls_states"][-1]),
        found["pooled_output"],
        atol=1e-5,
    )


def test_gradients_through_taps_are_those_of_differences():
    model = classifier(TinyBackbone(normalize_first=True, dropout=0.0))
    spread_weights(model)
    x = {name: batch()[name] for name in model.input}
    run = every_tap(model)
    draw = np.random.default_rng(0).normal
    factors = [draw(size=one.shape) for one in keras.tree.flatten(run(x))]

    def value():
        tensors = keras.tree.flatten(run(x))
        products = map(keras.ops.multiply, tensors, factors)
        return sum(map(keras.ops.sum, products))

    variables = model.trainable_variables
    steps = [1e-3 * draw(size=variable.shape) for variable in variables]
    expected = 0.0
    for sign in (1, -2):
        for variable, step in zip(variables, steps, strict=True):
            variable.assign_add(sign * step)
        expected += np.sign(sign) * to_numpy(value()) / 2
    for variable, step in zip(variables, steps, strict=True):
        variable.assign_add(step)
    found = sum(
        np.sum(gradient * step)
        for gradient, step in zip(
            gradients_of(value, variables), steps, strict=True
        )
    )
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("mode", "name"),
    [("full", "bert"), ("list_of_layers", "transformer_layer_1")],
)
def test_layers_that_run_again_for_gradients_are_refused(mode, name):
    with keras.RematScope(mode, layer_names=["transformer_layer_1"]):
        model = bert()
    for tap in ("hidden_states", "attention_logits"):
        with pytest.raises(ValueError, match=f"{name}.*rematerialized"):
            taps.tapped(model, [tap])
    assert taps.tapped(model, ["logits"]).taps == ("logits",)
    with keras.RematScope("list_of_layers", layer_names=["pooled_dense"]):
        model = bert()
    assert len(taps.tapped(model, ["keys"])(batch())["keys"]) == 2
