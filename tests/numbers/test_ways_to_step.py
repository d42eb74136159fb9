"""Accumulated gradients, XLA and half precision change nothing but the cost.

Of every kind of model that recipes train, with the objectives of its recipes.
"""

import dataclasses
import gc

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.caches import rows
from kit.helpers import (
    ArrayExamples,
    assert_same_weights,
    bert,
    cross_entropy,
    eager_steps,
    large_except,
)
from kit.trained import KINDS, ROWS, make_optimizer

import kdkit
from kdkit import data, models
from kdkit.recipes import Stage

UPDATES, PARTS = 3, 2
CHUNK_SIZES = {"decoders": 8}
STAGE = Stage("any", 1, 1e-3, hard_label_weight=1.0, warmup_fraction=0.5)
# How far losses and weights may be from those of the plain step.
EXACT = {"rtol": 1e-4, "atol": 2e-5}
HALF = {
    "mixed_bfloat16": {"rtol": 0.05, "atol": 0.02},
    "mixed_float16": {"rtol": 0.01, "atol": 0.005},
}


def make(kind, policy="float32"):
    """A student in some precision, its distiller, and a batch for it."""
    student, teacher, objectives, batch = KINDS[kind]()
    student = models.in_policy(student, policy)
    keras.utils.set_random_seed(0)  # the same projections
    distiller = kdkit.Distiller(
        teacher,
        student,
        objectives,
        STAGE.hard_label_weight,
        chunk_size=CHUNK_SIZES.get(kind),
    )
    return student, distiller, batch


def train(kind, jit_compile=False, fused=False, parts=1, policy="float32"):
    """The losses of some updates, and the weights that they leave."""
    student, distiller, batch = make(kind, policy)
    stage = dataclasses.replace(STAGE, gradient_accumulation_steps=parts)
    optimizer = make_optimizer(stage, 2 * UPDATES, fused)
    if policy == "mixed_float16":
        # Keras begins with a scale that these losses are too large for, and
        # leaves out updates until it is small enough.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, 16.0)
    distiller.compile(
        optimizer,
        loss=cross_entropy(reduction="mean_with_sample_weight"),
        jit_compile=jit_compile,
    )
    batches = data.BatchStream(
        ArrayExamples(batch), data.FullBatches(ROWS), num_parts=parts
    ).training()
    history = distiller.fit(
        batches, steps_per_epoch=UPDATES * parts, shuffle=False, verbose=0
    )
    assert int(distiller.optimizer.iterations) == UPDATES
    losses = {name: value for name, (value,) in history.history.items()}
    return losses, student.get_weights()


@pytest.fixture(scope="module")
def plain():
    """The plain step of each kind, run once and untraced."""
    done = {}

    def of(kind):
        if kind not in done:
            with eager_steps():
                done[kind] = train(kind)
        return done[kind]

    return of


def check(found, expected, tolerance):
    assert set(found[0]) == set(expected[0])
    for name, value in expected[0].items():
        np.testing.assert_allclose(
            found[0][name], value, **tolerance, err_msg=name
        )
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


# Runs on sentences are refused to compile more than the update.
FOR_UPDATES = {"encoder_decoders": {"fused": True}}


@pytest.mark.parametrize("kind", large_except(KINDS, "decoders"))
def test_parts_compiled_by_xla_make_the_update_of_the_batch(kind, plain):
    by_xla = FOR_UPDATES.get(kind, {"jit_compile": True})
    check(train(kind, parts=PARTS, **by_xla), plain(kind), EXACT)


@pytest.mark.large
@pytest.mark.parametrize("policy", HALF)
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_near(kind, policy, plain):
    check(train(kind, policy=policy), plain(kind), HALF[policy])


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_scaled_in_float16(kind):
    """Of a distiller, and of a student that learns from labels alone."""
    student, distiller, _ = make(kind, "mixed_float16")
    for model in (distiller, student):
        model.compile(make_optimizer(STAGE, UPDATES), loss="mse")
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)


@pytest.mark.large
def test_all_at_once(plain):
    found = train(
        "decoders", jit_compile=True, parts=PARTS, policy="mixed_bfloat16"
    )
    check(found, plain("decoders"), HALF["mixed_bfloat16"])


def test_batches_of_all_lengths_share_one_trace():
    """And so do the batches of dev: retracing costs more than the steps."""
    traces = []

    class Counted(kdkit.Distiller):
        def train_step(self, batch):
            traces.append("train")
            return super().train_step(batch)

        def test_step(self, batch):
            traces.append("test")
            return super().test_step(batch)

    encoded = rows(22)
    stream = data.BatchStream(encoded, data.Buckets(4, num_buckets=4))
    batches, steps = stream.training(), stream.steps_per_epoch
    dev = data.BatchStream(encoded, data.Buckets(8, num_buckets=3)).evaluation()
    shapes = {tuple(x["token_ids"].shape) for x, _ in batches.take(steps)}
    assert len(shapes) > 3
    objective = kdkit.Objective(kdkit.losses.SoftCrossEntropy())
    distiller = Counted(bert(1, seed=1), bert(1, seed=2), objective)
    distiller.compile(jit_compile=False)
    for _ in range(2):
        distiller.fit(
            batches,
            steps_per_epoch=steps,
            validation_data=dev,
            shuffle=False,
            verbose=0,
        )
    assert traces == ["train", "test"]


def steps_kept():
    """The graphs of steps that something still holds."""
    gc.collect()
    return [
        graph.name
        for graph in gc.get_objects()
        # The type alone: other packages have objects that warn when touched.
        if issubclass(type(graph), tf.Graph)
        and "one_step" in getattr(graph, "name", "")
    ]


@pytest.mark.large
@pytest.mark.parametrize(
    ("kind", "parts"),
    [("classifiers", 1), ("classifiers", PARTS), ("decoders", 1)],
)
def test_a_step_is_forgotten_with_its_models(kind, parts):
    """And their weights, which sweeps of many runs have no room for."""
    before = steps_kept()
    train(kind, parts=parts)
    assert steps_kept() == before


class Summing(keras.optimizers.SGD):
    """Sums gradients over replicas itself, as optimizers of others do."""

    def apply_gradients(self, grads_and_vars):
        gradients, variables = zip(*grads_and_vars, strict=True)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        return super().apply_gradients(zip(gradients, variables, strict=True))


@pytest.mark.large
def test_an_optimizer_of_others_may_ask_for_its_replica():
    weights = []
    for optimizer in (Summing(0.1), keras.optimizers.SGD(0.1)):
        student, distiller, batch = make("classifiers")
        distiller.compile(optimizer, cross_entropy())
        distiller.train_on_batch(*batch)
        weights.append(student.get_weights())
    assert_same_weights(*weights, atol=1e-6)
