"""The metrics of all tasks, by name."""

import numpy as np
import scipy.stats
import seqeval.metrics
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


def micro_f1(labels, predictions) -> float:
    """F1 over all rows and classes at once; 0 where no class is right."""
    return _multi_label_f1(labels, predictions, "micro")


def macro_f1(labels, predictions) -> float:
    """Mean over classes of their F1; 0 for a class that is never right.

    Of one class a row, the classes are those that the labels have, whatever is
    predicted: models that are compared on the same rows share them.
    """
    classes = np.unique(labels) if np.ndim(labels) == 1 else None
    return _multi_label_f1(labels, predictions, "macro", classes)


def subset_accuracy(labels, predictions) -> float:
    """Share of rows of which every class is right."""
    return float(sklearn.metrics.accuracy_score(labels, predictions))


def span_f1(labels, predictions) -> float:
    """F1 of whole spans, from lists of tags; 0 where no span is right."""
    return float(seqeval.metrics.f1_score(labels, predictions, zero_division=0))


def span_precision(labels, predictions) -> float:
    """Share of the predicted spans that are right in kind, start and end."""
    return float(
        seqeval.metrics.precision_score(labels, predictions, zero_division=0)
    )


def span_recall(labels, predictions) -> float:
    """Share of the spans that were found."""
    return float(
        seqeval.metrics.recall_score(labels, predictions, zero_division=0)
    )


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "subset_accuracy": subset_accuracy,
    "span_f1": span_f1,
    "span_precision": span_precision,
    "span_recall": span_recall,
}


def check_logits(logits, num_rows, num_classes) -> np.ndarray:
    """Returns logits as an array, if metrics can be taken of them.

    Args:
        logits: float array of shape `(num_rows, num_classes)`.
        num_rows: int. Number of labels.
        num_classes: int. Width of the logits; 1 for scores.

    Raises:
        UsageError: if there are no rows or the shape does not fit.
        RunError: if a logit is not finite.
    """
    logits = np.asarray(logits)
    if not num_rows or logits.shape != (num_rows, num_classes):
        raise UsageError(
            f"Metrics need logits of shape (num_rows, {num_classes}) and one "
            f"label a row. Received: logits of shape {logits.shape}, "
            f"{num_rows} labels."
        )
    if not np.isfinite(logits).all():
        num_broken = int((~np.isfinite(logits)).any(axis=1).sum())
        raise RunError(
            f"The logits of {num_broken} of {len(logits)} rows are not "
            "finite: the model has diverged. Train it with a smaller "
            "learning_rate."
        )
    return logits


def _multi_label_f1(labels, predictions, average, classes=None):
    return float(
        sklearn.metrics.f1_score(
            labels,
            predictions,
            labels=classes,
            average=average,
            zero_division=0.0,
        )
    )


def _correlation(function, labels, predictions):
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    # in float32 nearly constant predictions lose their differences
    return float(
        function(
            np.asarray(labels, "float64"), np.asarray(predictions, "float64")
        ).statistic
    )
