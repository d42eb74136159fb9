"""What a model's answers are worth beside one answer for all rows."""

import dataclasses

import numpy as np
import sklearn.metrics

FEWEST_ANSWERS = 100  # with fewer, one answer in ten may be chance
FEWEST_OTHERS = 5  # labels that one answer for all misses
CHANCE = 3.0  # standard errors
EXPLAINED_VARIANCE = "explained variance"


@dataclasses.dataclass(frozen=True)
class Baseline:
    """A model on some rows, beside what is said without reading them.

    Args:
        measure: string. What `model` and `constant` are, in words.
        model: float. Of the model's answers; larger is better.
        constant: float. Of the best answer that is the same for all rows.
        correlation: float. Of the model's answers with the labels: 0 where
            they do not depend on each other.
        num_answers: int. How many were compared.
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
        """Whether answers and labels depend on each other, surely enough.

        Without dependence the correlation of n answers spreads by about
        1 / √n; beyond twice that it is hardly chance.
        """
        return abs(self.correlation) * self.num_answers**0.5 > 2


def collapse(baseline: Baseline) -> str | None:
    """Returns why a model has collapsed, `None` for one that has not.

    A model has collapsed if it gives the same answer to every row. Or if, on
    at least 100 answers,

    - its share of right answers is at most 3 standard errors,
      √(p (1 − p) / n), above the share p of the best constant answer, such as
      the commonest class; and
    - its answers do not depend on the labels: their correlation (Matthews' for
      classes, the mean over the classes for several labels a row, Pearson's
      for scores) is at most 3 / √n, where 1 / √n is its standard error for
      independent answers.

    For scores the second condition alone counts. 3 standard errors and not 2,
    since the epoch that is measured is the best of several. A model of which a
    rare class is known, and that is right no more often than the commonest
    class, has not collapsed.

    Nothing is concluded where fewer than 5 labels differ from the commonest:
    a model that knows every second of 5 misses all in 1 of 32 cases.

    Args:
        baseline: `Baseline` of the model's answers.

    Returns:
        The reason, to follow "it", or `None`.

    >>> collapse(of_classes(np.arange(200) % 2, np.zeros(200, int)))
    'gives every example the same answer'
    >>> collapse(of_classes(np.arange(200) % 2, np.arange(200) % 2)) is None
    True
    """
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
        f"is right in {100 * baseline.model:.1f} %, the commonest answer alone "
        f"in {100 * level:.1f} %, and its answers do not depend on the labels "
        f"({correlation})"
    )


def of_classes(labels, predictions) -> Baseline:
    """Returns the accuracy beside that of the most frequent class.

    Args:
        labels: int array of shape `(num_answers,)`. Negative ones are of
            classes that the model does not know.
        predictions: int array of shape `(num_answers,)`.

    >>> of_classes(np.array([0, 0, 1]), np.array([0, 0, 1])).constant
    0.6666666666666666
    """
    _, counts = np.unique(labels, return_counts=True)
    correlation = 0.0
    if len(counts) > 1:
        correlation = sklearn.metrics.matthews_corrcoef(labels, predictions)
    return Baseline(
        "accuracy",
        float(np.mean(labels == predictions)),
        float(counts.max() / len(labels)),
        float(correlation),
        len(labels),
        _differ(predictions),
        len(counts) > 1,
    )


def of_decisions(labels, predictions) -> Baseline:
    """Returns the share of right decisions beside each class' usual one.

    The correlation is the mean of those of the classes that are there in some
    rows and not in others.

    Args:
        labels: array of zeros and ones of shape `(num_rows, num_classes)`.
        predictions: array likewise.
    """
    shares = labels.mean(axis=0)
    correlations = [
        sklearn.metrics.matthews_corrcoef(*columns)
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


def of_scores(labels, predictions) -> Baseline:
    """Returns the share of the variance that scores explain.

    That of the mean of the labels, the best score that is the same for all
    rows, is 0; scores on another scale than the labels are far below it.

    Args:
        labels: float array of shape `(num_rows,)`.
        predictions: float array of shape `(num_rows,)`.
    """
    correlation = 0.0
    if np.ptp(labels) and np.ptp(predictions):
        correlation = float(np.corrcoef(labels, predictions)[0, 1])
    explained = 0.0
    if np.ptp(labels):
        explained = float(sklearn.metrics.r2_score(labels, predictions))
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
