"""Mistakes after which a loss would return a wrong number."""

import numpy as np
import pytest
from keras import ops

import kdkit
from kdkit import losses

ONES = np.ones((2, 4))
NARROW = "hidden_state_mse"


class Reduced(losses.LogitMSE):
    """A loss with one value for the batch."""

    def call(self, teacher, student):
        return ops.sum(teacher - student)


def projected(loss):
    return kdkit.Objective(
        losses.get_loss(loss), tap="sentence_embedding", projection="shared"
    )


MISTAKES = {
    "name taken": (
        lambda: losses.register_loss("logit_mse")(Reduced),
        "LogitMSE",
    ),
    "no such loss": (lambda: losses.get_loss("mse"), "'mse'"),
    "no such argument": (
        lambda: losses.get_loss({"name": "soft_cross_entropy", "tau": 2}),
        "'tau'.*temperature",
    ),
    "of other shapes": (
        lambda: losses.InBatchContrastive()(ONES, ONES[:, :1]),
        "shape",
    ),
    "reduced": (lambda: Reduced()(ONES, ONES), "batch"),
    "temperature 0": (
        lambda: losses.SoftBinaryCrossEntropy(temperature=0.0),
        "temperature",
    ),
    "no temperature": (
        lambda: losses.InBatchContrastive(temperature=np.nan),
        "nan",
    ),
    "top 0": (lambda: losses.LogitKLDivergence(top_k=0), "top_k"),
    "mean over": (
        lambda: losses.RelationKLDivergence(mean_over="heads"),
        "'heads'.*texts",
    ),
    "smoothing": (lambda: losses.SmoothedCrossEntropy(1.0), "1.0"),
    "not of sentences": (lambda: losses.Matryoshka("logit_mse"), "sentence"),
    "width 0": (lambda: losses.Matryoshka(NARROW, (4, 0)), "0"),
    "weight below 0": (
        lambda: losses.Matryoshka(NARROW, (4, 2), (1.0, -1.0)),
        "-1.0",
    ),
    "too narrow": (lambda: losses.Matryoshka(NARROW, (8, 2))(ONES, ONES), "4"),
    # Another vector would be trained than the student's own.
    "projection": (lambda: projected("similarity_kl_divergence"), "projection"),
    "projection of prefixes": (
        lambda: projected(losses.Matryoshka(NARROW)),
        "projection",
    ),
} | {
    f"parity of {loss.__name__}": (lambda loss=loss: loss(parity="x"), "'x'")
    for loss in (
        losses.AttentionMSE,
        losses.HiddenStateMSE,
        losses.LogitKLDivergence,
        losses.PatienceMSE,
        losses.SoftCrossEntropy,
    )
}


@pytest.mark.parametrize(("call", "named"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused(call, named):
    with pytest.raises(ValueError, match=named):
        call()
