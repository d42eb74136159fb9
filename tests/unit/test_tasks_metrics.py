"""Metrics and agreement against their definitions in NumPy."""

import numpy as np
import pytest

from kdkit.tasks import TASKS, agreement
from kdkit.tasks.metrics import METRICS


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_accuracy_and_f1_match_their_definitions(generator):
    labels = generator.integers(2, size=50)
    logits = generator.normal(size=(50, 2))
    predictions = (logits[:, 1] > logits[:, 0]).astype(int)
    true_positives = np.sum(predictions & labels)
    metrics = TASKS["mrpc"].compute_metrics(labels, logits)
    assert metrics == {
        "accuracy": pytest.approx(np.mean(predictions == labels)),
        "f1": pytest.approx(
            2 * true_positives / (predictions.sum() + labels.sum())
        ),
    }
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize("last", [0, 1, 2])
def test_macro_f1_is_a_mean_over_the_classes_of_the_labels(last):
    labels = np.array([0, 0, 1, 1])
    predictions = np.array([0, 0, 1, last])
    of_each = [
        2
        * np.sum((labels == one) & (predictions == one))
        / (np.sum(labels == one) + np.sum(predictions == one))
        for one in (0, 1)
    ]  # whatever is said of class 2, which no row has
    found = METRICS["macro_f1"](labels, predictions)
    assert found == pytest.approx(np.mean(of_each))


def test_matthews_correlation_matches_its_definition(generator):
    labels = generator.integers(2, size=50)
    logits = generator.normal(size=(50, 2))
    metrics = TASKS["cola"].compute_metrics(labels, logits)
    # of two binary variables it is their Pearson correlation
    expected = np.corrcoef(labels, logits.argmax(axis=1))[0, 1]
    assert metrics == {"matthews_correlation": pytest.approx(expected)}


def test_correlations_match_their_definitions(generator):
    labels = generator.uniform(0, 5, size=50).astype("float32")
    logits = (labels**3 + generator.normal(size=50))[:, np.newaxis]
    metrics = TASKS["stsb"].compute_metrics(labels, logits)
    ranks = [values.argsort().argsort() for values in (labels, logits[:, 0])]
    assert metrics == {
        "pearson": pytest.approx(np.corrcoef(labels, logits[:, 0])[0, 1]),
        "spearman": pytest.approx(np.corrcoef(*ranks)[0, 1]),
    }


@pytest.mark.parametrize(
    ("name", "logits", "expected"),
    [
        ("stsb", [[1.0], [1.0]], {"pearson": 0.0, "spearman": 0.0}),
        ("cola", [[1.0, 0.0]] * 2, {"matthews_correlation": 0.0}),
        ("mrpc", [[1.0, 0.0]] * 2, {"accuracy": 0.5, "f1": 0.0}),
    ],
)
def test_metrics_of_constant_predictions_are_defined(name, logits, expected):
    assert TASKS[name].compute_metrics([0, 1], logits) == expected


def test_agreement_matches_its_definition(generator):
    teacher, student = generator.normal(size=(2, 20, 3))

    def softmax(logits):
        exponentials = np.exp(logits)
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    ratio = np.log(softmax(teacher) / softmax(student))
    assert agreement(teacher, student) == {
        "same_top_class": pytest.approx(
            np.mean(teacher.argmax(axis=1) == student.argmax(axis=1))
        ),
        "kl_divergence": pytest.approx(
            np.mean(np.sum(softmax(teacher) * ratio, axis=1))
        ),
    }


def test_agreement_is_finite_at_extreme_logits():
    found = agreement([[1e4, -1e4]], [[-1e4, 1e4]])
    assert found["kl_divergence"] == pytest.approx(2e4)


def test_agreement_of_scores_is_their_squared_difference():
    assert agreement([[1.0], [2.0]], [[1.5], [4.0]]) == {
        "mean_squared_difference": pytest.approx((0.25 + 4.0) / 2)
    }
