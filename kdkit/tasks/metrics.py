"""The official GLUE metrics, by name."""

import numpy as np
import scipy.stats
import sklearn.metrics

from kdkit.errors import RunError
from kdkit.errors import UsageError


def accuracy(labels, predictions) -> float:
    """Share of rows whose predicted class is the label."""
    return float(sklearn.metrics.accuracy_score(labels, predictions))


def f1(labels, predictions) -> float:
    """F1 of class 1; 0 where class 1 is never right."""
    score = sklearn.metrics.f1_score(labels, predictions, zero_division=0.0)
    return float(score)


def matthews_correlation(labels, predictions) -> float:
    """Matthews correlation coefficient; 0 for constant predictions."""
    return float(sklearn.metrics.matthews_corrcoef(labels, predictions))


def pearson(labels, predictions) -> float:
    """Pearson correlation; 0 for constant labels or predictions."""
    return _correlation(scipy.stats.pearsonr, labels, predictions)


def spearman(labels, predictions) -> float:
    """Spearman rank correlation; 0 for constant labels or predictions."""
    return _correlation(scipy.stats.spearmanr, labels, predictions)


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
}


def compute_metrics(names, labels, logits, num_classes) -> dict[str, float]:
    """Returns the named metrics of logits.

    Args:
        names: keys of `METRICS`.
        labels: int or float array of shape `(num_rows,)`.
        logits: float array of shape `(num_rows, num_classes)`.
        num_classes: int. 1 for scores.

    Raises:
        UsageError: if the shapes do not fit.
        RunError: if a logit is not finite.
    """
    labels, logits = np.asarray(labels), np.asarray(logits)
    if not len(labels) or logits.shape != (len(labels), num_classes):
        raise UsageError(
            f"Metrics need logits of shape (num_rows, {num_classes}) and one "
            f"label a row. Received: logits of shape {logits.shape}, labels "
            f"of shape {labels.shape}."
        )
    if not np.isfinite(logits).all():
        num_rows = int((~np.isfinite(logits)).any(axis=1).sum())
        raise RunError(
            f"The logits of {num_rows} of {len(logits)} rows are not finite: "
            "the model has diverged."
        )
    predictions = logits[:, 0] if num_classes == 1 else logits.argmax(axis=1)
    return {name: METRICS[name](labels, predictions) for name in names}


def _correlation(function, labels, predictions):
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    # in float32 nearly constant predictions lose their differences
    return float(
        function(
            np.asarray(labels, "float64"), np.asarray(predictions, "float64")
        ).statistic
    )
