"""LightPAFF's equations 4 and 7 for MASS, against NumPy."""

import keras
import numpy as np
import pytest
from kit.helpers import log_softmax, with_random_weights

from kdkit import Distiller, Objective, losses
from kdkit.models import MassBackbone, MassSeq2SeqLM

VOCABULARY_SIZE = 12


def make_model(width, seed):
    keras.utils.set_random_seed(seed)
    model = MassSeq2SeqLM(
        MassBackbone(VOCABULARY_SIZE, 1, 1, 2, width, 12, dropout=0.0)
    )
    return with_random_weights(model, seed=seed)


@pytest.fixture(scope="module")
def batch():
    """Spans of three and of two tokens, at their own places (equation 4).

    The targets of fine-tuning (equation 7) differ in their places alone.
    """
    x = {
        "encoder_token_ids": np.array([[5, 6, 4, 4, 4, 3], [5, 4, 4, 7, 3, 0]]),
        "encoder_padding_mask": np.array([[1] * 6, [1] * 5 + [0]]),
        "decoder_token_ids": np.array([[5, 8, 9], [5, 10, 0]]),
        "decoder_padding_mask": np.array([[1, 1, 1], [1, 1, 0]]),
        "decoder_positions": np.array([[1, 2, 3], [0, 1, 0]]),
    }
    y = np.array([[8, 9, 6], [10, 11, 0]])
    weight = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]], "float32")
    return x, y, weight


@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_loss_is_the_papers_over_the_tokens_that_count(batch, share):
    x, y, weight = batch
    teacher, student = make_model(8, 1), make_model(4, 2)
    of_teacher, of_student = (
        log_softmax(np.array(model(x), "float64"))
        for model in (teacher, student)
    )
    counted = weight > 0
    likelihood = -np.take_along_axis(of_student, y[..., None], -1)[counted]
    divergence = np.exp(of_teacher) * (of_teacher - of_student)
    expected = (1 - share) * likelihood.mean() + share * divergence.sum(-1)[
        counted
    ].mean()

    distiller = Distiller(
        teacher,
        student,
        [Objective(losses.LogitKLDivergence(), weight=share)],
        hard_label_weight=1 - share,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    distiller.compile(loss=loss if share < 1 else None)
    logs = distiller.evaluate(
        x, y, sample_weight=weight, return_dict=True, verbose=0
    )
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)
