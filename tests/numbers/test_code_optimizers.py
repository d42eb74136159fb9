"""Updates of TinyBERT's and DistilBERT's code, from their formulas in NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import batch, bert

import kdkit
from kdkit import models
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.recipes.stages import (
    OptimizerSettings,
    same_number_of_updates,
)
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_optimizer

pytestmark = pytest.mark.usefixtures("quick_runs")

UPDATES, RATE, PAD = 10, 0.01, 0
NOT_DECAYED = ("bias", "layer_norm", "gamma", "beta")


def stage_of(recipe, name, parity):
    stages = RECIPES[recipe].stages_for(get_task("sst2"), parity)
    (stage,) = [stage for stage in stages if stage.name == name]
    return dataclasses.replace(stage, learning_rate=RATE)


def compiled(stage, objectives):
    """A distiller with the stage's optimizer, and its student."""
    student = bert(1, 8, seed=2)
    keras.utils.set_random_seed(1)
    distiller = kdkit.Distiller(bert(2, 12, seed=1), student, objectives)
    distiller.compile(
        make_optimizer(
            stage, UPDATES, padding_row=models.padding_row(student, PAD)
        ),
        jit_compile=False,
    )
    return distiller, student


def dense_gradients(distiller, x):
    """By name of the weight, `None` where there is none."""
    with tf.GradientTape() as tape:
        loss, _ = distiller.run_student(
            x, None, None, distiller.run_teachers(x), training=True
        )
    variables = distiller.trainable_variables
    return [
        None if one is None else tf.convert_to_tensor(one).numpy()
        for one in tape.gradient(loss, variables)
    ]


def linear(step):
    """The share of the rate in the update after so many of them."""
    done = step / UPDATES
    return done / 0.1 if done < 0.1 else (1 - done) / 0.9


class BertAdam:
    """The optimizer of TinyBERT's code: no bias correction, clipping alone."""

    beta_2, decay, num_clipped = 0.999, 0.01, 0

    def __init__(self, paths):
        self.paths = paths
        self.moments = [(0.0, 0.0)] * len(paths)
        self.step = 0

    def clipped(self, gradients):
        for gradient in gradients:
            norm = np.linalg.norm(gradient)
            self.num_clipped += norm > 1
            yield gradient * min(1.0, 1.0 / (norm + 1e-6))

    def correction(self):
        return 1.0

    def __call__(self, weights, gradients, rate):
        self.step += 1
        has_gradient = [one is not None for one in gradients]
        found = self.clipped([one for one in gradients if one is not None])
        for number, weight in enumerate(weights):
            if not has_gradient[number]:
                yield weight
                continue
            gradient = next(found)
            mean, square = self.moments[number]
            mean = 0.9 * mean + 0.1 * gradient
            square = self.beta_2 * square + (1 - self.beta_2) * gradient**2
            self.moments[number] = mean, square
            update = self.correction() * mean / (np.sqrt(square) + 1e-6)
            if not any(name in self.paths[number] for name in NOT_DECAYED):
                update = update + self.decay * weight
            yield weight - rate * update


class DistilBertAdam(BertAdam):
    """That of DistilBERT's code: one norm for all, and no decay."""

    beta_2, decay = 0.98, 0.0

    def clipped(self, gradients):
        norm = np.sqrt(sum(np.sum(one**2) for one in gradients))
        self.num_clipped += norm > 5
        return (one * min(1.0, 5.0 / (norm + 1e-6)) for one in gradients)

    def correction(self):
        return np.sqrt(1 - self.beta_2**self.step) / (1 - 0.9**self.step)


def assert_updates(distiller, x, optimizer, share, padding_row=None):
    """Compares some updates with an optimizer in NumPy."""
    for step in range(4):
        before = [one.numpy() for one in distiller.trainable_variables]
        gradients = dense_gradients(distiller, x)
        if padding_row is not None:
            number = optimizer.paths.index(padding_row)
            assert np.abs(gradients[number][PAD]).max() > 0.01
            gradients[number][PAD] = 0.0
        expected = optimizer(before, gradients, RATE * share(step))
        distiller.train_on_batch(x)
        after = [one.numpy() for one in distiller.trainable_variables]
        for value, right, path in zip(
            after, expected, optimizer.paths, strict=True
        ):
            np.testing.assert_allclose(value, right, atol=1e-5, err_msg=path)
    moved = max(np.abs(a - b).max() for a, b in zip(after, before, strict=True))
    assert moved > RATE / 10


def paths_of(distiller):
    return [one.path for one in distiller.trainable_variables]


def test_tinyberts_first_step_updates_as_the_authors_code():
    stage = stage_of("tinybert", "intermediate_layer", "tinybert")
    distiller, student = compiled(stage, stage.weighted_objectives())
    optimizer = BertAdam(paths_of(distiller))
    path, row = models.padding_row(student, PAD)
    assert row == PAD
    x = batch()
    assert (x["token_ids"] == PAD).any()
    assert_updates(distiller, x, optimizer, lambda step: 1.0, path)
    assert optimizer.num_clipped > 10


def test_tinyberts_second_step_updates_as_the_authors_code():
    stage = stage_of("tinybert", "prediction_layer", "tinybert")
    distiller, _ = compiled(stage, stage.weighted_objectives())
    optimizer = BertAdam(paths_of(distiller))
    # Padding adds nothing to the logits: its row has no gradient anyway.
    assert_updates(distiller, batch(), optimizer, linear)


def test_distilberts_pretraining_updates_as_the_authors_code():
    stage = stage_of("distilbert", "pretraining", None)
    stage = dataclasses.replace(stage, warmup_fraction=0.1)
    loss = kdkit.losses.LogitKLDivergence(temperature=2.0)
    distiller, _ = compiled(stage, [kdkit.Objective(loss, weight=50.0)])
    optimizer = DistilBertAdam(paths_of(distiller))
    assert_updates(distiller, batch(), optimizer, linear)
    assert optimizer.num_clipped == 4


@pytest.mark.parametrize("parity", ["tinybert", None])
def test_the_padding_token_only_decays_in_the_authors_code(parity):
    stage = stage_of("tinybert", "intermediate_layer", parity)
    counts_padding = stage_of("tinybert", "intermediate_layer", "tinybert")
    distiller, student = compiled(stage, counts_padding.weighted_objectives())
    table = student.backbone.token_embedding.embeddings
    before = table.numpy()
    for _ in range(2):
        distiller.train_on_batch(batch())
    only_decayed = np.allclose(
        table.numpy()[PAD], before[PAD] * (1 - RATE * 0.01) ** 2, atol=1e-6
    )
    assert only_decayed == (parity == "tinybert")
    assert np.abs(table.numpy()[1:] - before[1:]).max() > RATE


def test_a_control_is_trained_with_the_stages_optimizer():
    stages = RECIPES["tinybert"].variant("tinybert").stages
    (control,) = same_number_of_updates(stages)
    assert control.optimizer == stages[-1].optimizer


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clipnorm": 0.0}, "clipnorm must be above 0 and finite, received 0"),
        ({"global_clipnorm": np.inf}, "global_clipnorm must be above 0"),
        ({"beta_2": 1.0}, "beta_2 must be above 0 and below 1"),
    ],
)
def test_impossible_optimizers_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        OptimizerSettings(**settings)
