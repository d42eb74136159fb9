"""kdkit.training.optimizers: learning rates, and what does not decay."""

import keras
import numpy as np
import pytest

from kdkit.losses import SmoothedCrossEntropy
from kdkit.recipes import Stage
from kdkit.training.optimizers import (
    LinearWarmupDecay,
    make_label_loss,
    make_optimizer,
)


def stage(**fields):
    return Stage("s", 1, 1e-3, hard_label_weight=1.0, **fields)


@pytest.mark.parametrize("warmup", [0.1, 0.0])
def test_schedule_matches_its_formula(warmup):
    schedule = LinearWarmupDecay(2.0, num_steps=100, warmup_fraction=warmup)
    schedule = LinearWarmupDecay.from_config(schedule.get_config())
    steps, rise = np.arange(101), 100 * warmup
    rising = steps / max(rise, 1)
    falling = (100 - steps) / (100 - rise)
    np.testing.assert_allclose(
        [float(schedule(step)) for step in steps],
        2.0 * np.where(steps < rise, rising, falling),
        atol=1e-6,
    )


def test_constant_stage_has_a_constant_rate():
    optimizer = make_optimizer(stage(schedule="constant"), 10)
    assert float(optimizer.learning_rate) == pytest.approx(1e-3)


def test_weight_decay_spares_biases_and_norms():
    optimizer = make_optimizer(stage(), 10)
    layers = [
        keras.layers.Dense(2, name="dense"),
        keras.layers.LayerNormalization(name="layer_norm"),
    ]
    layers.append(keras.layers.RMSNormalization(name="norm"))
    model = keras.Sequential([keras.Input((3,)), *layers])
    weights = model.trainable_variables
    optimizer.build(weights)
    for weight in weights:
        weight.assign(np.ones(weight.shape))
    for _ in range(2):
        optimizer.apply([np.zeros(v.shape, "float32") for v in weights])
    decayed = [v.name for v in weights if (v.numpy() != 1).any()]
    assert decayed == ["kernel"]


def test_label_smoothing_does_not_change_how_the_loss_is_reduced():
    plain = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    assert make_label_loss(stage(), plain) is plain
    smoothed = make_label_loss(stage(label_smoothing=0.1), plain)
    assert isinstance(smoothed, SmoothedCrossEntropy)
    assert smoothed.label_smoothing == 0.1
    assert smoothed.reduction == plain.reduction
