"""Changes that must not affect training: padding, order, copies, names."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
from kit.helpers import LENGTH, ON_TASKS, batch, bert, labels, to_numpy
from kit.trained import make_label_loss, make_optimizer

from kdkit import Distiller
from kdkit.recipes import RECIPES

ROWS, CLASSES = 6, 3
ORDER = np.random.default_rng(3).permutation(ROWS)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
CLASS_ORDER = np.array([2, 0, 1])  # the new class c is the old CLASS_ORDER[c]
pytestmark = [pytest.mark.large, pytest.mark.usefixtures("eager")]
every_recipe = pytest.mark.parametrize(
    "recipe", [RECIPES[name] for name in ON_TASKS], ids=ON_TASKS
)


def head(model):
    """The kernel and the bias of a classifier's last layer."""
    return model.trainable_weights[-2:]


def fit(stage, teacher, student, x, y):
    """Two updates. A batch has all rows, and only their order may differ."""
    keras.utils.set_random_seed(0)
    stage = dataclasses.replace(stage, learning_rate=1e-2, schedule="constant")
    model = keras.Model(student.input, student.output)
    if stage.objectives:
        objectives = stage.weighted_objectives()
        model = Distiller(teacher, student, objectives, stage.label_weight)
    model.compile(make_optimizer(stage, 2), make_label_loss(stage, LOSS))
    model.fit(x, y, batch_size=4 * ROWS, epochs=2, verbose=0)


def learned(recipe, change_rows=None, change_models=None):
    """The student's logits on the rows, after the recipe's updates."""
    teacher, student = bert(3, 12, seed=1), bert(2, 12, seed=2)
    x, y = batch(ROWS, length=LENGTH - 2), labels(ROWS)
    new_x, new_y = change_rows(x, y) if change_rows else (x, y)
    if change_models:
        change_models(teacher, student)
    before = to_numpy(student(x))
    for stage in recipe.stages:
        if stage.data == "task":
            fit(stage, teacher, student, new_x, new_y)
    after = to_numpy(student(x))
    assert np.abs(after - before).max() > 0.05  # it did learn
    return after


@functools.cache
def as_it_is(name):
    """What a recipe learns from the rows as they are."""
    return learned(RECIPES[name])


def check(found, recipe):
    # Adam's first updates are near the sign of a gradient, and rounding
    # decides that of one that is nearly 0.
    np.testing.assert_allclose(found, as_it_is(recipe.name), rtol=0, atol=0.02)


def change_rows(x, y):
    """Padded, in another order, each twice, with other numbers for classes."""
    twice = ORDER.repeat(2)
    x = {name: np.pad(v[twice], [(0, 0), (0, 2)]) for name, v in x.items()}
    x["token_ids"][:, -2:] = 7  # words under the mask
    return x, np.argsort(CLASS_ORDER)[y[twice]]


def reorder_heads(*models):
    """Other numbers for classes in models that give logits of them."""
    for model in models:
        for weight in head(model):
            weight.assign(to_numpy(weight.value)[..., CLASS_ORDER])


def shift(teacher, student):
    """The same distributions by other logits."""
    head(teacher)[1].assign_add(np.full(CLASSES, 5.0))


def compares_logits(recipe):
    """Whether a stage compares the logits themselves."""
    return any(
        objective.loss.name == "logit_mse"
        for stage in recipe.stages
        for objective in stage.objectives
    )


@every_recipe
def test_all_of_it_at_once_changes_nothing(recipe):
    def change_models(teacher, student):
        reorder_heads(teacher, student)
        if not compares_logits(recipe):
            shift(teacher, student)

    found = learned(recipe, change_rows, change_models)
    check(found[:, np.argsort(CLASS_ORDER)], recipe)


@every_recipe
def test_a_constant_beside_the_teachers_logits_changes_no_distribution(recipe):
    found = learned(recipe, change_models=shift)
    if compares_logits(recipe):
        with pytest.raises(AssertionError):
            check(found, recipe)
    else:
        check(found, recipe)
