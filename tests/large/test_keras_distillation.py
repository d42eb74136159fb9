"""What docs/keras_distillation.md says about keras.distillation is true."""

import keras
import numpy as np
import pytest
from keras import distillation
from kit.helpers import batch_logs, cross_entropy

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


def test_weights_map_as_the_table_says():
    teacher, student = network(), network()
    loss = distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())
    features = distillation.FeatureDistillation("mse", "hidden", "hidden")
    theirs = distillation.Distiller(
        teacher,
        student,
        [loss, features],
        distillation_loss_weights=[1.0, 0.5],
        student_loss_weight=0.3,
    )
    theirs.compile("sgd", loss=cross_entropy())
    expected = float(theirs.compute_loss(X, Y, theirs.student(X)))
    kl, mse = losses.LogitKLDivergence(2.0), losses.HiddenStateMSE()
    for first, second in (
        (kdkit.Objective(kl, weight=0.7), {"loss": mse, "tap": "layer:hidden"}),
        (kdkit.Objective(loss, weight=0.7), {"loss": features}),
    ):
        objectives = [first, kdkit.Objective(**second, weight=0.35)]
        ours = kdkit.Distiller(teacher, student, objectives, 0.3)
        ours.compile("sgd", loss=cross_entropy())
        assert batch_logs(ours, X, Y)["loss"] == pytest.approx(
            expected, rel=1e-4
        )
