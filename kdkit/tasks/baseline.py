"""Compares a model's answers with the best constant answer."""

import dataclasses

import numpy as np

from kdkit.late import sklearn_metrics
from kdkit.tasks.metrics import pearson

FEWEST_ANSWERS = 100  # with fewer, one right answer in ten may be chance
FEWEST_OTHERS = 5  # labels that differ from the best constant answer
CHANCE = 3.0  # standard errors
EXPLAINED_VARIANCE = "explained variance"


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A model's score, and the score of the best constant answer.

    Args:
        measure: string. What `model` and `constant` measure, in words.
        model: float. The score of the model's answers; larger is better.
        constant: float. The score of the best answer that is the same for all
            examples.
        correlation: float. The correlation of the model's answers with the
            labels: 0 if they do not depend on each other.
        num_answers: int. The number of answers that were compared.
        answers_differ: bool. Whether the model's answers are not all the same.
            Defaults to `True`.
        labels_differ: bool. Whether the labels are not all the same. Defaults
            to `True`.
    """

    measure: str
    model: float
    constant: float
    correlation: float
    num_answers: int
    answers_differ: bool = True
    labels_differ: bool = True


def collapse(baseline: Baseline) -> str | None:
    """Returns why a model has collapsed, `None` if it has not."""
    count, level = baseline.num_answers, baseline.constant
    if not baseline.labels_differ or count * (1 - level) < FEWEST_OTHERS:
        return None
    if not baseline.answers_differ:
        return "gives every example the same answer"
    errors = abs(baseline.correlation) * count**0.5
    if count < FEWEST_ANSWERS or errors > CHANCE:
        return None
    correlation = f"correlation {baseline.correlation:.2f} on {count}"
    if baseline.measure == EXPLAINED_VARIANCE:
        return f"gives scores that do not depend on the labels ({correlation})"
    error = (level * (1 - level) / count) ** 0.5
    if baseline.model > level + CHANCE * error:
        return None
    return (
        f"is right in {100 * baseline.model:.1f} %, the most frequent answer "
        f"alone in {100 * level:.1f} %, and its answers do not depend on the "
        f"labels ({correlation})"
    )


def compare_answers(labels, predictions, measure="accuracy") -> Baseline:
    """Compares the share of right answers with the most frequent answers'.

    Labels are classes, or rows of decisions, each compared alone.
    """
    usual, correlations = [], []
    for column, answers in zip(
        np.atleast_2d(labels.T), np.atleast_2d(predictions.T), strict=True
    ):
        _, counts = np.unique(column, return_counts=True)
        usual.append(counts.max() / len(labels))
        if len(counts) > 1:
            related = sklearn_metrics.matthews_corrcoef(column, answers)
            correlations.append(related)
    right, usual = np.mean(labels == predictions), np.mean(usual)
    return _baseline(measure, labels, predictions, right, usual, correlations)


def compare_scores(labels, predictions) -> Baseline:
    """Returns the share of the labels' variance that the scores explain."""
    explained = 0.0
    if np.ptp(labels):
        explained = sklearn_metrics.r2_score(labels, predictions)
    correlations = [pearson(labels, predictions)]
    return _baseline(
        EXPLAINED_VARIANCE, labels, predictions, explained, 0.0, correlations
    )


def _baseline(measure, labels, predictions, model, constant, correlations):
    return Baseline(
        measure,
        float(model),
        float(constant),
        float(np.mean(correlations or 0.0)),
        len(labels) * max(len(correlations), 1),
        bool((predictions != predictions[:1]).any()),
        bool((labels != labels[:1]).any()),
    )
