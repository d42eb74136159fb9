"""The logs of an epoch are means over everything that counted in it."""

import keras
import numpy as np
import pytest
from kit.helpers import LENGTH, batch, decoder, distiller, labels, log_softmax

import kdkit

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 8


def evaluated(model, batch_size, order, x, y=None, sample_weight=None):
    """The logs of rows in an order, in batches of a size."""
    ordered = {name: values[order] for name, values in x.items()}
    y, sample_weight = (
        None if values is None else values[order]
        for values in (y, sample_weight)
    )
    return model.evaluate(
        ordered,
        y,
        sample_weight=sample_weight,
        batch_size=batch_size,
        verbose=0,
        return_dict=True,
    )


@pytest.fixture(scope="module")
def token_labels():
    """A decoder's inputs, labels and weights: rows of 6 tokens and of one."""
    ids = np.random.default_rng(0).integers(1, 40, (4, LENGTH + 1), "int32")
    weights = np.zeros((4, LENGTH), "float32")
    weights[:2], weights[2:, 0] = 1, 1
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    return x, ids[:, 1:], weights


@pytest.fixture(scope="module")
def on_tokens():
    """A decoder that learns from labels per token and from a teacher."""
    model = kdkit.Distiller(
        decoder(1, seed=1),
        decoder(1, seed=2),
        [kdkit.Objective(kdkit.losses.LogitKLDivergence(), weight=0.5)],
        hard_label_weight=0.25,
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
    )
    return model


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3]])
@pytest.mark.parametrize("batch_size", [4, 3, 2])
def test_labels_of_tokens_count_by_tokens(
    on_tokens, token_labels, batch_size, order
):
    x, y, weights = token_labels
    logs = evaluated(on_tokens, batch_size, order, x, y, weights)
    log_probs = log_softmax(on_tokens.predict(x, verbose=0))
    losses = -np.take_along_axis(log_probs, y[..., None], axis=-1)[..., 0]
    mean = np.average(losses, weights=weights)
    np.testing.assert_allclose(logs["hard_label_loss"], mean, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [ROWS, 3, 2])
def test_the_loss_is_the_weighted_sum_whatever_the_batches_are(batch_size):
    model = distiller(hard_label_weight=0.5)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    x, y = batch(ROWS), labels(ROWS)
    by_length = np.argsort(x["padding_mask"].sum(axis=1))
    logs = evaluated(model, batch_size, by_length, x, y)
    expected = 0.5 * logs["hard_label_loss"] + sum(
        objective.weight * logs[objective.name]
        for objective in model.objectives
    )
    np.testing.assert_allclose(logs["loss"], expected, rtol=1e-6)
    whole = evaluated(model, ROWS, np.arange(ROWS), x, y)
    for name, value in whole.items():
        np.testing.assert_allclose(logs[name], value, rtol=1e-5)


def test_an_epoch_forgets_the_one_before():
    model = distiller()
    model.compile(optimizer=keras.optimizers.SGD(0.0), run_eagerly=False)
    x = batch(ROWS)
    history = model.fit(x, batch_size=2, epochs=2, shuffle=False, verbose=0)
    for first, second in history.history.values():
        np.testing.assert_allclose(second, first, rtol=1e-6)
