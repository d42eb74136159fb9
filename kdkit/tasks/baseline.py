"""What a model's answers are worth beside one answer for all rows."""

import dataclasses

import numpy as np
import sklearn.metrics


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
    """

    measure: str
    model: float
    constant: float
    correlation: float
    num_answers: int

    @property
    def is_related(self) -> bool:
        """Whether answers and labels depend on each other, surely enough.

        Without dependence the correlation of n answers spreads by about
        1 / √n; beyond twice that it is hardly chance.
        """
        return abs(self.correlation) * self.num_answers**0.5 > 2


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
    return Baseline(
        "accuracy",
        float(np.mean(labels == predictions)),
        float(counts.max() / len(labels)),
        float(sklearn.metrics.matthews_corrcoef(labels, predictions)),
        len(labels),
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
        "explained variance", explained, 0.0, correlation, len(labels)
    )
