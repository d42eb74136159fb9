"""The loss on labels with label smoothing, against NumPy."""

import keras
import numpy as np
import pytest
from kit.backend import gradient
from kit.helpers import log_softmax, softmax

from kdkit.losses import SmoothedCrossEntropy

SHAPE, CLASSES = (3, 4), 7
GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.integers(CLASSES, size=SHAPE)
LOGITS = (3 * GENERATOR.normal(size=(*SHAPE, CLASSES))).astype("float32")
WEIGHTS = GENERATOR.uniform(size=SHAPE) * np.array([1, 1, 0, 1])


def targets(label_smoothing):
    one_hot = np.eye(CLASSES)[LABELS]
    return (1 - label_smoothing) * one_hot + label_smoothing / CLASSES


def values(label_smoothing):
    return -np.sum(targets(label_smoothing) * log_softmax(LOGITS), axis=-1)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
def test_smoothed_cross_entropy_matches_numpy(label_smoothing):
    loss = SmoothedCrossEntropy(label_smoothing)
    expected = values(label_smoothing)
    np.testing.assert_allclose(loss(LABELS, LOGITS), expected.mean(), 1e-5)
    np.testing.assert_allclose(
        loss(LABELS, LOGITS, WEIGHTS), np.mean(WEIGHTS * expected), 1e-5
    )
    loss = SmoothedCrossEntropy(
        label_smoothing, reduction="mean_with_sample_weight"
    )
    np.testing.assert_allclose(
        loss(LABELS, LOGITS, WEIGHTS),
        np.sum(WEIGHTS * expected) / np.sum(WEIGHTS),
        1e-5,
    )


def test_its_gradient_leads_to_the_smoothed_labels():
    loss = SmoothedCrossEntropy(0.1, reduction="sum")
    np.testing.assert_allclose(
        gradient(lambda logits: loss(LABELS, logits), LOGITS),
        softmax(LOGITS) - targets(0.1),
        atol=1e-5,
    )


def test_without_smoothing_it_is_that_of_keras():
    expected = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = SmoothedCrossEntropy(0.0)
    assert float(found(LABELS, LOGITS)) == float(expected(LABELS, LOGITS))


def test_it_survives_keras_serialisation():
    loss = SmoothedCrossEntropy(0.2, reduction="mean_with_sample_weight")
    restored = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(restored) is SmoothedCrossEntropy
    assert restored.get_config() == loss.get_config()
    assert float(restored(LABELS, LOGITS)) == float(loss(LABELS, LOGITS))
