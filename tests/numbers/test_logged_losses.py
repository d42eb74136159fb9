"""Logged losses on soft labels exclude the teacher's entropy."""

import keras
import numpy as np
import pytest
from kit.helpers import batch, bert, decoder, divergence, log_softmax, softmax

import kdkit
from kdkit import losses

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 6
VARIANTS = {
    "T=10": losses.SoftCrossEntropy(temperature=10.0),
    "T=10, squared": losses.SoftCrossEntropy(10.0, True),
    "T=3, parity": losses.SoftCrossEntropy(3.0, parity="tinybert"),
    "binary, T=10": losses.SoftBinaryCrossEntropy(10.0, True),
}


def entropy(loss, logits):
    """The teacher's, for each row, as the loss counts it."""
    logits = np.asarray(logits, "float64") / loss.temperature
    if isinstance(loss, losses.SoftBinaryCrossEntropy):
        p = 1 / (1 + np.exp(-logits))
        values = -np.mean(p * np.log(p) + (1 - p) * np.log(1 - p), axis=-1)
    else:
        values = -np.sum(softmax(logits) * log_softmax(logits), axis=-1)
    if getattr(loss, "parity", None):
        values = values / logits.shape[-1]
    if loss.scale_by_temperature_squared:
        values = values * loss.temperature**2
    return values


@pytest.fixture(scope="module")
def models():
    return bert(2, 12, seed=1), bert(1, 8, seed=2)


def logs_of(distiller, *data):
    logs = distiller.test_on_batch(*data, return_dict=True)
    return {name: float(value) for name, value in logs.items()}


@pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_logs_are_the_loss_less_the_teachers_entropy(models, loss, weighted):
    teacher, student = models
    x = batch(ROWS)
    weights = np.linspace(0, 2, ROWS, dtype="float32") if weighted else None
    distiller = kdkit.Distiller(
        teacher, student, [kdkit.Objective(loss, weight=0.5)]
    )
    distiller.compile()
    logs = logs_of(distiller, x, np.zeros(ROWS, int), weights)
    of_teacher, of_student = (
        keras.ops.convert_to_numpy(model(x)) for model in models
    )
    called = float(loss(of_teacher, of_student, weights))
    constant = np.average(entropy(loss, of_teacher), weights=weights)
    assert called > constant  # the loss itself is the cross-entropy as ever
    assert logs[loss.name] == pytest.approx(called - constant, abs=1e-4)
    assert logs["loss"] == pytest.approx(logs[loss.name] / 2, rel=1e-6)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_vocabulary_logits_leave_the_entropy_of_padding_out(chunk_size):
    teacher, student = decoder(2, seed=1), decoder(1, seed=2)
    distiller = kdkit.Distiller(
        teacher,
        student,
        kdkit.Objective(losses.SoftCrossEntropy()),
        chunk_size=chunk_size,
    )
    distiller.compile()
    mask = np.ones((3, 7), "int32")
    mask[1, 4:] = 0
    x = {
        "token_ids": np.random.default_rng(0).integers(0, 40, (3, 7)),
        "padding_mask": mask,
    }
    x["token_ids"] = x["token_ids"].astype("int32")
    of_teacher, of_student = (
        keras.ops.convert_to_numpy(model(x)) for model in (teacher, student)
    )
    expected = divergence(of_teacher, of_student)[mask > 0].mean()
    assert logs_of(distiller, x)["loss"] == pytest.approx(expected, rel=1e-4)


def test_a_teacher_without_some_classes_has_a_finite_entropy():
    logits = np.array([[0.0, 1.0, -np.inf], [2.0, -np.inf, -1.0]], "float32")
    student = np.zeros((2, 3), "float32")
    top, bottom = losses.SoftCrossEntropy().sums(
        logits, student, subtract_entropy=True
    )
    kept = np.where(np.isfinite(logits), logits, -1e9)
    expected = divergence(kept, student).mean()
    assert float(top) / float(bottom) == pytest.approx(expected, rel=1e-5)
