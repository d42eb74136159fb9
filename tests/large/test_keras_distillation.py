"""What docs/keras_distillation.md says about keras.distillation is true."""

import keras
import numpy as np
import pytest
from keras import distillation
from kit.helpers import cross_entropy

import kdkit
from kdkit import losses

pytestmark = [
    pytest.mark.usefixtures("eager"),
    # Of the models that keras.distillation makes to read layers.
    pytest.mark.filterwarnings("ignore:(?s).*structure of `inputs` doesn't"),
]
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(6, 4)).astype("float32")
Y = np.arange(6) % 3


def network():
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(4, name="hidden"),
            keras.layers.Dense(3, name="head"),
        ]
    )


def theirs(teacher, student, loss, **arguments):
    model = distillation.Distiller(teacher, student, loss, **arguments)
    model.compile("sgd", loss=cross_entropy(), run_eagerly=True)
    return model


def ours(teacher, student, objectives, **arguments):
    model = kdkit.Distiller(teacher, student, objectives, **arguments)
    label_loss = cross_entropy() if arguments.get("hard_label_weight") else None
    model.compile("sgd", loss=label_loss)
    return model


def their_total(model, **arguments):
    """The loss of one batch; the logs of `evaluate` have the same number."""
    return float(model.compute_loss(X, Y, model.student(X), **arguments))


def our_total(model, **arguments):
    return model.evaluate(X, Y, verbose=0, return_dict=True, **arguments)[
        "loss"
    ]


def test_weights_map_as_the_table_says():
    teacher, student = network(), network()
    loss = distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())
    features = distillation.FeatureDistillation("mse", "hidden", "hidden")
    model = theirs(
        teacher,
        student,
        [loss, features],
        distillation_loss_weights=[1.0, 0.5],
        student_loss_weight=0.3,
    )
    objectives = [
        kdkit.Objective(losses.LogitKLDivergence(2.0), weight=0.7),
        kdkit.Objective(
            losses.HiddenStateMSE(), tap="layer:hidden", weight=0.7 * 0.5
        ),
    ]
    own = ours(teacher, student, objectives, hard_label_weight=0.3)
    expected = their_total(model)
    assert our_total(own) == pytest.approx(expected, rel=1e-4)
    adapted = [
        kdkit.Objective(loss, weight=0.7),
        kdkit.Objective(features, weight=0.35),
    ]
    again = ours(teacher, student, adapted, hard_label_weight=0.3)
    assert our_total(again) == pytest.approx(expected, rel=1e-4)
