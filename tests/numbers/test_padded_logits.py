"""Logits per position: padding never counts, however it is marked."""

import keras
import numpy as np
import pytest
from kit.helpers import (
    LENGTH,
    batch,
    bert,
    decoder,
    log_softmax,
    spread_weights,
)

import kdkit

pytestmark = pytest.mark.usefixtures("eager")

REAL = 4  # tokens of a row; the others are padding
WEIGHTS = np.array([[0, 1, 1, 0, 0, 1]] * 4, "float32")  # one is of padding


def tagger(seed):
    """A BERT with classes for each token."""
    backbone = bert(1, 8, num_classes=None, seed=seed)
    states = backbone(backbone.input)["sequence_output"]
    logits = keras.layers.Dense(3, name=f"tags_{seed}")(states)
    model = keras.Model(backbone.input, logits)
    spread_weights(model, seed)
    return model


@pytest.fixture(scope="module")
def x():
    inputs = batch(seed=1)
    real = np.arange(LENGTH) < REAL
    inputs["padding_mask"] = np.broadcast_to(real, (4, LENGTH)).astype("int32")
    inputs["token_ids"] = np.where(
        real, np.maximum(inputs["token_ids"], 1), 0
    ).astype("int32")
    return inputs


@pytest.fixture(scope="module", params=["tagger", "decoder", "in chunks"])
def models(request):
    """Teacher, student, and how many positions are taken at a time."""
    make = tagger if request.param == "tagger" else lambda s: decoder(1, s)
    return make(1), make(2), 5 if request.param == "in chunks" else None


def value(models, x, sample_weight=None, **arguments):
    """The objective as a distiller evaluates it."""
    teacher, student, chunk_size = models
    distiller = kdkit.Distiller(
        teacher,
        student,
        [kdkit.Objective(kdkit.losses.LogitKLDivergence(), **arguments)],
        chunk_size=chunk_size,
    )
    distiller.compile()
    y = None if sample_weight is None else np.zeros((4, LENGTH), "int32")
    logs = distiller.evaluate(
        x,
        y,
        sample_weight=sample_weight,
        batch_size=3,
        verbose=0,
        return_dict=True,
    )
    return logs["logit_kl_divergence"]


def by_hand(models, x, weights):
    teacher, student = (
        log_softmax(
            model.predict({name: x[name] for name in model.input}, verbose=0)
        )
        for model in models[:2]
    )
    divergence = (np.exp(teacher) * (teacher - student)).sum(axis=-1)
    return np.average(divergence, weights=weights)


def test_a_mask_alone_says_what_counts(models, x):
    expected = by_hand(models, x, x["padding_mask"])
    np.testing.assert_allclose(value(models, x), expected, rtol=1e-4)
    cut = {name: values[:, :REAL] for name, values in x.items()}
    np.testing.assert_allclose(value(models, cut), expected, rtol=1e-4)


def test_weights_of_rows_count_beside_the_mask(models, x):
    rows = np.array([0.5, 1, 0, 2], "float32")
    expected = by_hand(models, x, x["padding_mask"] * rows[:, None])
    np.testing.assert_allclose(value(models, x, rows), expected, rtol=1e-4)


def test_weights_of_positions_say_it_by_themselves(models, x):
    expected = by_hand(models, x, WEIGHTS)
    np.testing.assert_allclose(value(models, x, WEIGHTS), expected, rtol=1e-4)


def test_without_them_the_mask_counts_again(models, x):
    found = value(models, x, WEIGHTS, use_sample_weight=False)
    expected = by_hand(models, x, x["padding_mask"])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_logits_of_something_else_than_positions_have_no_mask(x):
    def questions(seed):
        """Two answers a row to each of three questions."""
        backbone = bert(1, 8, num_classes=None, seed=seed)
        logits = keras.layers.Reshape((3, 2), name="questions")(
            keras.layers.Dense(6, name=f"answers_{seed}")(
                backbone(backbone.input)["pooled_output"]
            )
        )
        model = keras.Model(backbone.input, logits)
        spread_weights(model, seed)
        return model

    both = (questions(1), questions(2), None)
    expected = by_hand(both, x, np.ones((4, 3)))
    np.testing.assert_allclose(value(both, x), expected, rtol=1e-4)
