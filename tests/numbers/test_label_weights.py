"""Rows without labels train on the teacher's distribution only."""

import keras
import numpy as np
import pytest
from kit.helpers import (
    batch,
    bert,
    cross_entropy,
    divergence,
    labels,
    log_softmax,
)

import kdkit

pytestmark = pytest.mark.usefixtures("eager")

LABEL_WEIGHT = np.array([1, 0, 1, 0], "float32")


@pytest.fixture(scope="module")
def distiller():
    made = kdkit.Distiller(
        bert(seed=1),
        bert(seed=2),
        [kdkit.Objective(kdkit.losses.SoftCrossEntropy(), weight=0.5)],
        hard_label_weight=0.5,
    )
    made.compile(
        loss=cross_entropy(),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy("accuracy")],
    )
    return made


def logs_of(distiller, x, y, sample_weight=None):
    return distiller.test_on_batch(x, y, sample_weight, return_dict=True)


@pytest.mark.parametrize("sample_weight", [None, np.array([1.0, 2, 3, 4])])
def test_labels_count_where_there_are_some(distiller, sample_weight):
    x, y = batch(), labels()
    teacher, student = (
        np.asarray(model(x)) for model in (distiller.teacher, distiller.student)
    )
    weights = np.ones(4) if sample_weight is None else sample_weight
    soft = divergence(teacher, student)
    hard = -log_softmax(student)[np.arange(4), y]
    logs = logs_of(
        distiller, {**x, "label_weight": LABEL_WEIGHT}, y, sample_weight
    )
    soft = (weights * soft).sum() / weights.sum()
    # A mean over all rows, as Keras has it: an unlabelled row adds nothing.
    hard = (weights * LABEL_WEIGHT * hard).mean()
    np.testing.assert_allclose(logs["soft_cross_entropy"], soft, rtol=1e-5)
    np.testing.assert_allclose(logs["hard_label_loss"], hard, rtol=1e-5)
    np.testing.assert_allclose(logs["loss"], 0.5 * (soft + hard), rtol=1e-5)
    right = student.argmax(axis=-1) == y
    np.testing.assert_allclose(
        logs["accuracy"],
        np.average(right, weights=weights * LABEL_WEIGHT),
        rtol=1e-5,
    )


def test_labels_of_unlabelled_rows_change_nothing(distiller):
    x, y = {**batch(), "label_weight": LABEL_WEIGHT}, labels()
    other = np.where(LABEL_WEIGHT == 1, y, (y + 1) % 3)
    first, second = (logs_of(distiller, x, given) for given in (y, other))
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-6)
