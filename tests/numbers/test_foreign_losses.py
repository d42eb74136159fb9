"""Losses of Keras and functions as losses between teacher and student."""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops

import kdkit
from kdkit import losses

GENERATOR = np.random.default_rng(0)
TEACHER, STUDENT = GENERATOR.normal(size=(2, 5, 4)).astype("float32")
WEIGHTS = np.array([1.0, 2.0, 0.0, 1.0, 3.0], "float32")


def value(loss, tap="logits", weights=None):
    objective = kdkit.Objective(loss, tap=tap)
    return float(objective.loss(TEACHER, STUDENT, weights))


@keras.saving.register_keras_serializable("foreign_losses")
def largest_difference(teacher, student):
    return ops.max(ops.abs(teacher - student), axis=-1)


OURS = [
    (keras.losses.MeanSquaredError(None), losses.LogitMSE()),
    (keras.losses.mean_squared_error, losses.LogitMSE()),
    (keras.losses.KLDivergence(None), losses.LogitKLDivergence()),
    (keras.losses.kl_divergence, losses.LogitKLDivergence()),
    (
        keras.losses.CategoricalCrossentropy(reduction=None),
        losses.SoftCrossEntropy(),
    ),
    (
        functools.partial(
            keras.losses.categorical_crossentropy, from_logits=True
        ),
        losses.SoftCrossEntropy(),
    ),
    (
        keras.losses.BinaryCrossentropy(from_logits=True, reduction=None),
        losses.SoftBinaryCrossEntropy(),
    ),
    (
        keras.distillation.LogitsDistillation(temperature=2.0),
        losses.LogitKLDivergence(temperature=2.0),
    ),
    (
        keras.distillation.LogitsDistillation(
            2.0, keras.losses.CategoricalCrossentropy(from_logits=True)
        ),
        losses.SoftCrossEntropy(temperature=2.0),
    ),
    (keras.distillation.FeatureDistillation("mse"), losses.LogitMSE()),
]


@pytest.mark.parametrize(("loss", "own"), OURS)
def test_loss_of_keras_on_logits_is_ours(loss, own):
    for weights in (None, WEIGHTS):
        expected = float(own(TEACHER, STUDENT, weights))
        assert value(loss, weights=weights) == pytest.approx(expected, rel=1e-4)


def test_tensors_of_layers_go_to_a_loss_as_they_are():
    loss = keras.losses.KLDivergence(None)
    expected = float(ops.mean(loss(TEACHER, STUDENT)))
    assert value(loss, "layer:softmax") == pytest.approx(expected)


def test_function_is_a_loss_with_its_name():
    objective = kdkit.Objective(largest_difference)
    assert objective.name == "largest_difference"
    difference = np.abs(TEACHER - STUDENT).max(axis=-1)
    expected = np.sum(difference * WEIGHTS) / WEIGHTS.sum()
    assert value(largest_difference, weights=WEIGHTS) == pytest.approx(expected)


def test_layers_of_feature_distillation_are_the_tap():
    loss = keras.distillation.FeatureDistillation("mae", "a", "b")
    assert kdkit.Objective(loss).tap == ("layer:a", "layer:b")
    alone = keras.distillation.FeatureDistillation("mae", "a")
    assert kdkit.Objective(alone).tap == ("layer:a", "logits")
    with pytest.raises(ValueError, match="objective"):
        kdkit.Objective(loss, tap="layer:c")


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.Huber(reduction=None),
        keras.losses.mean_absolute_error,
        keras.distillation.LogitsDistillation(2.0),
        largest_difference,
    ],
)
def test_objective_with_a_foreign_loss_survives_json(loss):
    objective = kdkit.Objective(loss)
    assert objective == kdkit.Objective(loss)
    config = json.loads(json.dumps(objective.get_config()))
    restored = kdkit.Objective.from_config(config)
    assert restored.get_config() == objective.get_config()
    assert float(restored.loss(TEACHER, STUDENT)) == pytest.approx(value(loss))


REFUSED = {
    "mean": (keras.losses.KLDivergence(), "reduction=None"),
    "sum": (keras.losses.Huber(reduction="sum"), "reduction='sum'"),
    "inner": (
        keras.distillation.LogitsDistillation(
            loss=keras.losses.KLDivergence(reduction="sum")
        ),
        "reduction='sum'",
    ),
    "labels": (keras.losses.dice, "logits"),
}


@pytest.mark.parametrize(("loss", "named"), REFUSED.values(), ids=REFUSED)
def test_loss_that_reduces_or_does_not_fit_is_refused(loss, named):
    with pytest.raises(ValueError, match=named):
        kdkit.Objective(loss)


@pytest.mark.parametrize(
    "reduced",
    [
        lambda teacher, student: ops.mean(ops.square(teacher - student)),
        lambda teacher, student: ops.mean(teacher - student, axis=0),
    ],
    ids=["scalar", "over_batch"],
)
def test_loss_that_returns_reduced_values_is_refused(reduced):
    with pytest.raises(ValueError, match="batch"):
        value(reduced)
