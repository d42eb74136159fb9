"""Compares a model's answers with the best constant answer."""

import dataclasses

import numpy as np

from kdkit.late import sklearn_metrics

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

    @property
    def is_related(self) -> bool:
        """Whether answers and labels depend on each other.

        If they are independent, the correlation of n answers has a standard
        error of about 1 / √n; a value beyond twice that is unlikely.
        """
        return abs(self.correlation) * self.num_answers**0.5 > 2


def collapse(baseline: Baseline) -> str | None:
    """Returns why a model has collapsed, `None` if it has not."""
    count = baseline.num_answers
    num_others = count * (1 - baseline.constant)
    if not baseline.labels_differ or num_others < FEWEST_OTHERS:
        return None
    if not baseline.answers_differ:
        return "gives every example the same answer"
    if count < FEWEST_ANSWERS:
        return None
    if abs(baseline.correlation) * count**0.5 > CHANCE:
        return None
    correlation = f"correlation {baseline.correlation:.2f} on {count}"
    if baseline.measure == EXPLAINED_VARIANCE:
        return f"gives scores that do not depend on the labels ({correlation})"
    level = baseline.constant
    error = (level * (1 - level) / count) ** 0.5
    if baseline.model > level + CHANCE * error:
        return None
    return (
        f"is right in {100 * baseline.model:.1f} %, the most frequent answer "
        f"alone in {100 * level:.1f} %, and its answers do not depend on the "
        f"labels ({correlation})"
    )


def compare_classes(labels, predictions) -> Baseline:
    """Compares the accuracy with that of the most frequent class."""
    _, counts = np.unique(labels, return_counts=True)
    correlation = 0.0
    if len(counts) > 1:
        correlation = sklearn_metrics.matthews_corrcoef(labels, predictions)
    return Baseline(
        "accuracy",
        float(np.mean(labels == predictions)),
        float(counts.max() / len(labels)),
        float(correlation),
        len(labels),
        _differ(predictions),
        len(counts) > 1,
    )


def compare_decisions(labels, predictions) -> Baseline:
    """Compares the share of right decisions with the usual decisions."""
    shares = labels.mean(axis=0)
    correlations = [
        sklearn_metrics.matthews_corrcoef(*columns)
        for columns in zip(labels.T, predictions.T, strict=True)
        if len(np.unique(columns[0])) == 2
    ]
    return Baseline(
        "share of right decisions",
        float(np.mean(labels == predictions)),
        float(np.maximum(shares, 1 - shares).mean()),
        float(np.mean(correlations)) if correlations else 0.0,
        len(labels) * max(len(correlations), 1),
        _differ(predictions),
        _differ(labels),
    )


def compare_scores(labels, predictions) -> Baseline:
    """Returns the share of the labels' variance that the scores explain."""
    correlation = 0.0
    if np.ptp(labels) and np.ptp(predictions):
        correlation = float(np.corrcoef(labels, predictions)[0, 1])
    explained = 0.0
    if np.ptp(labels):
        explained = float(sklearn_metrics.r2_score(labels, predictions))
    return Baseline(
        EXPLAINED_VARIANCE,
        explained,
        0.0,
        correlation,
        len(labels),
        _differ(predictions),
        _differ(labels),
    )


def _differ(answers):
    """Whether the rows of an array are not all the same."""
    return bool((answers != answers[:1]).any())
