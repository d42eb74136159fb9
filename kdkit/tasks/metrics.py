"""The metrics of all tasks, by name."""

import numpy as np
import scipy.special
import scipy.stats
import seqeval.metrics
import sklearn.metrics
from sacrebleu.metrics import BLEU
from sacrebleu.metrics import CHRF

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


def agreement(teacher_logits, student_logits) -> dict[str, float]:
    """Compares the logits of two models on the same rows.

    Args:
        teacher_logits: float array of shape `(num_rows, num_classes)`.
        student_logits: float array of the same shape.

    Returns:
        Dict with `"same_top_class"`, the share of rows with the same largest
        logit, and `"kl_divergence"`, the mean over rows of
        KL(teacher ‖ student) in nats at temperature 1; or, for one logit, with
        `"mean_squared_difference"`.

    >>> agreement([[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [1.0, 0.0]])[
    ...     "same_top_class"
    ... ]
    0.5
    """
    teacher, student = check_pair(teacher_logits, student_logits)
    if teacher.shape[1] == 1:
        difference = float(np.mean(np.square(teacher - student)))
        return {"mean_squared_difference": difference}
    teacher_log_probs = scipy.special.log_softmax(teacher, axis=1)
    student_log_probs = scipy.special.log_softmax(student, axis=1)
    divergences = np.sum(
        np.exp(teacher_log_probs) * (teacher_log_probs - student_log_probs),
        axis=1,
    )
    same = teacher.argmax(axis=1) == student.argmax(axis=1)
    return {
        "same_top_class": float(same.mean()),
        "kl_divergence": float(divergences.mean()),
    }


def check_pair(teacher_logits, student_logits):
    """Returns both as float64 arrays of one shape.

    Raises:
        UsageError: if the shapes differ, or there are no rows.
    """
    teacher = np.asarray(teacher_logits, "float64")
    student = np.asarray(student_logits, "float64")
    if teacher.shape != student.shape or teacher.ndim != 2 or not teacher.size:
        raise UsageError(
            "Agreement needs two arrays of the same shape (num_rows, "
            f"num_classes). Received: teacher_logits of shape {teacher.shape}, "
            f"student_logits of shape {student.shape}."
        )
    return teacher, student


def generation_metrics(
    hypotheses: list[str],
    references: list[str],
    language: str | None = None,
) -> dict[str, float]:
    """Returns how close texts come to references, over all of them at once.

    Counts of n-grams are summed over the texts before they are divided. Texts
    are plain: detokenised, with their cases. sacrebleu tokenises them itself.

    Args:
        hypotheses: list of strings. What a model wrote.
        references: list of strings. What it should have written, one text for
            each of `hypotheses`, in their order.
        language: string or `None`. The texts' own, such as `"de"` or
            `"zh-TW"`. Chinese, Japanese and Korean have other words than what
            stands between spaces: sacrebleu splits them in ways of their own.
            Defaults to `None`.

    Returns:
        A dict of floats from 0 to 100: `bleu`, over n-grams of 1 to 4 words,
        and `chrf`, over n-grams of 1 to 6 characters. `generation_signatures`
        says how each was computed.

    Raises:
        UsageError: (a `ValueError`) if the counts differ, there is no text, or
            sacrebleu lacks what it splits the language by.

    Example:

    >>> kdkit.tasks.generation_metrics(["A man runs home."], ["A man runs."])
    {'bleu': 42.7..., 'chrf': 75.7...}

    References:
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
     - [Papineni et al., 2002](https://aclanthology.org/P02-1040)
     - [Popović, 2015](https://aclanthology.org/W15-3049)
    """
    if len(hypotheses) != len(references) or not references:
        raise UsageError(
            "BLEU and chrF need texts, each with one reference. Received: "
            f"{len(hypotheses)} hypotheses, {len(references)} references. Pass "
            "two lists of the same length, above 0."
        )
    return {
        name: float(metric.corpus_score(hypotheses, None).score)
        for name, metric in _metrics(references, language).items()
    }


def generation_signatures(language: str | None = None) -> dict[str, str]:
    """Returns sacrebleu's signature of each of `generation_metrics`.

    It names all that a score depends on: number of references, case,
    tokenisation, smoothing, sacrebleu's version. Scores with the same one
    compare.

    Args:
        language: string or `None`. As in `generation_metrics`. Defaults to
            `None`.

    Returns:
        A dict from the name of a metric to a string.

    Raises:
        UsageError: (a `ValueError`) if sacrebleu lacks what it splits the
            language by.
    """
    return {
        name: str(metric.get_signature())
        for name, metric in _metrics(["any"], language).items()
    }


def _metrics(references, language):
    """sacrebleu's metrics, as it sets them, for one reference a text."""
    # Without its script or country, which sacrebleu does not know.
    code = (language or "").lower().replace("_", "-").partition("-")[0]
    try:
        bleu = BLEU(references=[references], trg_lang=code)
    except RuntimeError as error:
        raise UsageError(
            f"sacrebleu needs more to split {language!r} into words. Install "
            f"it: pip install 'sacrebleu[{code}]'."
        ) from error
    return {"bleu": bleu, "chrf": CHRF(references=[references])}
