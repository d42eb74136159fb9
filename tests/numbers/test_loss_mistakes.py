"""Mistakes after which a loss would return a wrong number."""

import numpy as np
import pytest
from keras import ops

import kdkit
from kdkit import losses
from kdkit.errors import UsageError

ONES = np.ones((2, 4))


class Reduced(losses.LogitMSE):
    """A loss with one value for the batch."""

    def call(self, teacher, student):
        return ops.sum(teacher - student)


def objective(loss, **arguments):
    return kdkit.Objective(loss, tap="sentence_embedding", **arguments)


MISTAKES = {
    "name taken": (
        lambda: losses.register_loss("logit_mse")(Reduced),
        "taken by LogitMSE",
    ),
    "no such loss": (lambda: losses.get_loss("mse"), "Unknown loss 'mse'"),
    "no such argument": (
        lambda: losses.get_loss({"name": "soft_cross_entropy", "tau": 2}),
        "'tau'.*temperature",
    ),
    "of other shapes": (
        lambda: losses.InBatchContrastive()(ONES, ONES[:, :1]),
        "same shape",
    ),
    "reduced": (lambda: Reduced()(ONES, ONES), "over the batch"),
    "temperature 0": (
        lambda: losses.SoftBinaryCrossEntropy(temperature=0.0),
        "above 0",
    ),
    "no temperature": (
        lambda: losses.InBatchContrastive(temperature=np.nan),
        "received nan",
    ),
    "top 0": (lambda: losses.LogitKLDivergence(top_k=0), "top_k"),
    "mean over": (
        lambda: losses.RelationKLDivergence(mean_over="heads"),
        "'heads'.*texts",
    ),
    "smoothing": (lambda: losses.SmoothedCrossEntropy(1.0), "below 1"),
    "not of sentences": (
        lambda: losses.Matryoshka("logit_mse"),
        "sentence embeddings",
    ),
    "width 0": (
        lambda: losses.Matryoshka("hidden_state_mse", (4, 0)),
        "above 0",
    ),
    "weight below 0": (
        lambda: losses.Matryoshka("hidden_state_mse", (4, 2), (1.0, -1.0)),
        "received -1.0",
    ),
    "too narrow": (
        lambda: losses.Matryoshka("hidden_state_mse", (8, 2))(ONES, ONES),
        "vectors of 4",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()


@pytest.mark.parametrize(
    "loss",
    [
        losses.AttentionMSE,
        losses.HiddenStateMSE,
        losses.LogitKLDivergence,
        losses.PatienceMSE,
        losses.SoftCrossEntropy,
    ],
)
def test_a_loss_knows_its_parities(loss):
    with pytest.raises(UsageError, match="Unknown parity 'textbrewer'"):
        loss(parity="textbrewer")


@pytest.mark.parametrize(
    "loss", ["similarity_kl_divergence", losses.Matryoshka("hidden_state_mse")]
)
def test_losses_of_the_students_own_vectors_take_no_projection(loss):
    with pytest.raises(UsageError, match="takes no projection"):
        objective(losses.get_loss(loss), projection="shared")
