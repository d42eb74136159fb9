"""Every loss with its gradient on fixed inputs."""

import numpy as np
import pytest
import tensorflow as tf
from kit import goldens

from kdkit import losses

BATCH, LENGTH = 4, 3
LOGITS = (BATCH, 5)
TOKEN_LOGITS = (BATCH, LENGTH, 5)
BOTH = LOGITS, TOKEN_LOGITS
STATES = (BATCH, LENGTH, 6)
MATRICES = (BATCH, 2, LENGTH, LENGTH)
VECTORS = (BATCH, LENGTH, 2, 6)
# Name of the golden: loss, shape of its inputs.
CASES = {
    f"{loss.name} {settings} {'x'.join(map(str, shape))}": (loss, shape)
    for make, settings, shapes in (
        (losses.SoftCrossEntropy, {}, BOTH),
        (
            losses.SoftCrossEntropy,
            {"temperature": 2.0, "scale_by_temperature_squared": True},
            (LOGITS,),
        ),
        (
            losses.SoftCrossEntropy,
            {"temperature": 2.0, "parity": "tinybert"},
            BOTH,
        ),
        (losses.SoftBinaryCrossEntropy, {"temperature": 2.0}, (LOGITS,)),
        (losses.SoftBinaryCrossEntropy, {}, (TOKEN_LOGITS,)),
        (losses.LogitKLDivergence, {"temperature": 2.0}, BOTH),
        (
            losses.LogitKLDivergence,
            {"temperature": 2.0, "parity": "pkd"},
            BOTH,
        ),
        (losses.LogitKLDivergence, {"top_k": 2}, (TOKEN_LOGITS,)),
        (losses.LogitMSE, {}, BOTH),
        (losses.HiddenStateMSE, {}, (STATES,)),
        (losses.HiddenStateMSE, {"parity": "tinybert"}, (STATES,)),
        (losses.EmbeddingMSE, {}, (STATES,)),
        (losses.HiddenStateCosine, {}, (STATES,)),
        (losses.PatienceMSE, {}, ((BATCH, 6),)),
        (losses.PatienceMSE, {"parity": "pkd"}, ((BATCH, 6),)),
        (losses.AttentionMSE, {}, (MATRICES,)),
        (losses.AttentionMSE, {"parity": "tinybert"}, (MATRICES,)),
        (losses.RelationKLDivergence, {"num_relation_heads": 3}, (VECTORS,)),
        (
            losses.RelationKLDivergence,
            {"num_relation_heads": 3, "mean_over": "positions"},
            (VECTORS,),
        ),
    )
    for shape in shapes
    for loss in (make(**settings),)
}


def sample_weights(shape):
    """Masks and weights that a loss on such tensors takes."""
    generator = np.random.default_rng(1)
    positions = (generator.uniform(size=(BATCH, LENGTH)) > 0.3).astype("f4")
    positions[:, 0] = 1.0
    by_example = np.array([1.0, 0.5, 0.0, 2.0], "float32")
    if shape == MATRICES:
        real = positions[:, None, :, None] * positions[:, None, None, :]
        return {"none": None, "positions": np.broadcast_to(real, shape).copy()}
    if len(shape) == 2:
        return {"none": None, "examples": by_example}
    return {"none": None, "positions": positions * by_example[:, None]}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_the_golden_ones(name):
    loss, shape = CASES[name]
    drawn = np.random.default_rng(0).normal(size=(2, *shape))
    teacher, student = tf.constant(1.5 * drawn, "float32")
    found = {}
    for weights, sample_weight in sample_weights(shape).items():
        with tf.GradientTape() as tape:
            tape.watch(student)
            value = loss(teacher, student, sample_weight=sample_weight)
        gradient = tape.gradient(value, student)
        found[weights] = {
            "value": float(value),
            "gradient": goldens.summary(gradient),
        }
    goldens.check("losses", name, found)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_loss_on_labels_is_the_golden_one(label_smoothing):
    drawn = np.random.default_rng(0).normal(size=LOGITS)
    logits, labels = tf.constant(drawn, "float32"), tf.constant([0, 3, 4, 1])
    loss = losses.SmoothedCrossEntropy(label_smoothing)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(labels, logits, sample_weight=[1.0, 0.5, 0.0, 2.0])
    found = {
        "value": float(value),
        "gradient": goldens.summary(tape.gradient(value, logits)),
    }
    goldens.check("losses", f"smoothed_cross_entropy {label_smoothing}", found)
