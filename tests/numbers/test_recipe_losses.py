"""The total loss of a recipe's stage, on a hand-made batch, against NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
from kit.helpers import batch, bert, labels, log_softmax, softmax, to_numpy

import kdkit
from kdkit import models, taps
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training.optimizers import make_label_loss

pytestmark = pytest.mark.usefixtures("quick_runs")

TEACHER_LAYERS, STUDENT_LAYERS = 4, 3
CLASSES = 3


def logged(recipe, stage_name, parity, teacher, student, data, **changes):
    """The losses of one stage that the Distiller reports for a batch."""
    stages = RECIPES[recipe].stages_for(get_task("sst2"), parity)
    (stage,) = [stage for stage in stages if stage.name == stage_name]
    stage = dataclasses.replace(stage, **changes)
    distiller = kdkit.Distiller(
        teacher, student, stage.weighted_objectives(), stage.label_weight
    )
    distiller.compile(
        loss=make_label_loss(
            stage,
            keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            ),
        )
    )
    logs = distiller.test_on_batch(*data, return_dict=True)
    return {name: float(value) for name, value in logs.items()}


def cross_entropy(y, logits):
    return -np.take_along_axis(log_softmax(logits), y[..., None], -1)[..., 0]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def read(model, x):
    wanted = ["logits", "cls_states", "hidden_states"]
    return to_numpy(taps.tapped(model, wanted)(x))


@pytest.fixture(scope="module")
def classifiers():
    return bert(num_layers=TEACHER_LAYERS), bert(STUDENT_LAYERS, seed=1)


# Soft labels' temperature, factor and reduction; patience's weight and
# reduction, in each reading.
T, ALPHA = 10.0, 0.5
READINGS = {
    None: (T**2, False, 0.1, "sum"),
    "paper": (1.0, False, 0.1, "sum"),
    "pkd": (T**2, True, 100.0, "mean"),
}


@pytest.mark.parametrize("recipe", ["vanilla_kd", "pkd"])
@pytest.mark.parametrize("parity", READINGS)
def test_pkd_and_vanilla_kd_are_their_equations_less_entropy(
    recipe, parity, classifiers
):
    factor, is_kl, beta, reduction = READINGS[parity]
    x, y = batch(), labels()
    teacher, student = (read(model, x) for model in classifiers)
    soft_labels = softmax(teacher["logits"] / T)
    log_student = log_softmax(student["logits"] / T)
    soft = np.sum(soft_labels * (np.log(soft_labels) - log_student), -1)
    if is_kl:
        soft = soft / CLASSES
    hard = cross_entropy(y, student["logits"])
    expected = (1 - ALPHA) * hard.mean() + ALPHA * factor * soft.mean()
    if recipe == "pkd":
        # "skip" of 4 to 3 blocks.
        distances = [
            np.square(
                unit(student["cls_states"][block])
                - unit(teacher["cls_states"][learned])
            )
            for block, learned in {1: 1, 2: 3}.items()
        ]
        if reduction == "mean":
            expected += beta * np.mean(distances)
        else:
            expected += beta * np.sum(distances) / len(y)
    logs = logged(recipe, "fine_tuning", parity, *classifiers, (x, y))
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.fixture(scope="module")
def masked():
    """Masked-language models of teacher and student."""
    return [
        models.language_model(bert(num_layers, num_classes=None, seed=seed))
        for seed, num_layers in enumerate((TEACHER_LAYERS, STUDENT_LAYERS))
    ]


@pytest.fixture
def masked_batch():
    """Inputs, labels of masked tokens and their weights."""
    x = {**batch(), "mask_positions": np.array([[0, 1]] * 4)}
    weights = np.array([[1, 1], [1, 0], [1, 1], [0, 0]], "float32")
    return x, labels(8, 20).reshape(4, 2), weights


def mean(values, weights):
    return np.sum(values * weights) / np.sum(weights)


def test_distilbert_is_its_triple_loss(masked, masked_batch):
    x, y, weights = masked_batch
    teacher, student = (read(model, x) for model in masked)
    soft_labels = softmax(teacher["logits"] / 2)
    divergence = 4 * np.sum(
        soft_labels
        * (np.log(soft_labels) - log_softmax(student["logits"] / 2)),
        axis=-1,
    )
    cosine = 1 - np.sum(
        unit(teacher["hidden_states"][-1]) * unit(student["hidden_states"][-1]),
        axis=-1,
    )
    expected = (
        5 * mean(divergence, weights)
        + 2 * mean(cross_entropy(y, student["logits"]), weights)
        + mean(cosine, x["padding_mask"])
    )
    logs = logged("distilbert", "pretraining", None, *masked, (x, y, weights))
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("soft_label_weight", [0.0, 0.3, 1.0])
def test_lightpaff_is_equation_2_less_the_teachers_entropy(
    masked, masked_batch, soft_label_weight
):
    x, y, weights = masked_batch
    teacher, student = (read(model, x)["logits"] for model in masked)
    targets = soft_label_weight * softmax(teacher)
    targets += (1 - soft_label_weight) * np.eye(teacher.shape[-1])[y]
    equation = -np.sum(targets * log_softmax(student), -1)
    entropy = -np.sum(softmax(teacher) * log_softmax(teacher), -1)
    expected = mean(equation, weights) - soft_label_weight * mean(
        entropy, weights
    )
    change = {"soft_label_weight": soft_label_weight}
    logs = logged(
        "lightpaff", "pretraining", None, *masked, masked_batch, **change
    )
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("soft_label_weight", [0.0, 0.5, 1.0])
def test_lightpaff_is_equation_5_less_the_teachers_entropy(
    classifiers, soft_label_weight
):
    x, y = batch(), labels()
    teacher, student = (read(model, x)["logits"] for model in classifiers)
    targets = soft_label_weight * softmax(teacher)
    targets += (1 - soft_label_weight) * np.eye(CLASSES)[y]
    entropy = -np.sum(softmax(teacher) * log_softmax(teacher), -1)
    expected = np.mean(-np.sum(targets * log_softmax(student), -1))
    expected -= soft_label_weight * np.mean(entropy)
    change = {"soft_label_weight": soft_label_weight}
    logs = logged(
        "lightpaff", "fine_tuning", None, *classifiers, (x, y), **change
    )
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)
