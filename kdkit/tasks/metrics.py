"""The metrics of all tasks, by name."""

from collections.abc import Iterable

import numpy as np

from kdkit.errors import RunError, UsageError, require_extra
from kdkit.late import LateModule, sacrebleu, scipy, sklearn_metrics

seqeval = LateModule("seqeval.metrics", "seqeval")


def accuracy(labels, predictions) -> float:
    """Share of examples whose class, or every class, is right."""
    return sklearn_metrics.accuracy_score(labels, predictions)


def f1(labels, predictions) -> float:
    """F1 of class 1; 0 if class 1 is never right."""
    return sklearn_metrics.f1_score(labels, predictions, zero_division=0.0)


def matthews_correlation(labels, predictions) -> float:
    """Matthews correlation coefficient; 0 for constant predictions."""
    return sklearn_metrics.matthews_corrcoef(labels, predictions)


def pearson(labels, predictions) -> float:
    """Pearson correlation; 0 for constant labels or predictions."""
    return _correlation(scipy.stats.pearsonr, labels, predictions)


def spearman(labels, predictions) -> float:
    """Spearman rank correlation; 0 for constant labels or predictions."""
    return _correlation(scipy.stats.spearmanr, labels, predictions)


def _correlation(function, labels, predictions):
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:
        return 0.0
    # In float32 nearly constant predictions would lose their differences.
    sides = (np.asarray(one, "float64") for one in (labels, predictions))
    return float(function(*sides).statistic)


def micro_f1(labels, predictions) -> float:
    """F1 over all examples and classes together; 0 if no class is right."""
    return sklearn_metrics.f1_score(
        labels, predictions, average="micro", zero_division=0.0
    )


def macro_f1(labels, predictions) -> float:
    """Mean of the F1 of all classes; 0 for a class that is never right."""
    classes = np.unique(labels) if np.ndim(labels) == 1 else None
    return sklearn_metrics.f1_score(
        labels, predictions, labels=classes, average="macro", zero_division=0.0
    )


def span_f1(labels, predictions) -> float:
    """F1 of whole spans, from lists of tags; 0 if no span is right."""
    return seqeval.f1_score(labels, predictions, zero_division=0)


def span_precision(labels, predictions) -> float:
    """Share of the predicted spans whose kind, start and end are right."""
    return seqeval.precision_score(labels, predictions, zero_division=0)


def span_recall(labels, predictions) -> float:
    """Share of the spans that were predicted."""
    return seqeval.recall_score(labels, predictions, zero_division=0)


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "subset_accuracy": accuracy,
    "span_f1": span_f1,
    "span_precision": span_precision,
    "span_recall": span_recall,
}


def require_metrics(names: Iterable[str]) -> None:
    """Requires the packages that metrics need."""
    if any(name.startswith("span_") for name in names):
        require_extra("tagging", "seqeval")


def compute(names: Iterable[str], labels, predictions) -> dict[str, float]:
    """Returns metrics by name."""
    return {name: float(METRICS[name](labels, predictions)) for name in names}


def require_finite(values, what: str) -> np.ndarray:
    """Returns rows of numbers as an array; raises an error for NaN."""
    values = np.asarray(values)
    broken = int((~np.isfinite(values)).any(axis=1).sum())
    if broken:
        raise RunError(
            f"The {what} of {broken} of {len(values)} examples are not finite: "
            "the model has diverged."
        )
    return values


def require_logits(logits, num_rows, num_classes) -> np.ndarray:
    """Returns logits as an array; raises an error for invalid ones."""
    if not num_rows or np.shape(logits) != (num_rows, num_classes):
        raise UsageError(
            f"Metrics need logits of shape (num_rows, {num_classes}) and one "
            f"label per example. Received: shape {np.shape(logits)}, "
            f"{num_rows} labels."
        )
    return require_finite(logits, "logits")


def agreement(teacher_logits, student_logits) -> dict[str, float]:
    """Compares the logits of two models on the same examples.

    Args:
        teacher_logits: float array of shape `(num_rows, num_classes)`.
        student_logits: float array of the same shape.

    Returns:
        Dict with `"same_top_class"`, the share of examples with the same
        largest logit, and `"kl_divergence"`, the mean over examples of
        KL(teacher ‖ student) in nats at temperature 1; or, for a single logit,
        with `"mean_squared_difference"`.

    >>> agreement([[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [1.0, 0.0]])[
    ...     "same_top_class"
    ... ]
    0.5
    """
    teacher, student = require_same_shape(teacher_logits, student_logits)
    if teacher.shape[1] == 1:
        difference = float(np.mean(np.square(teacher - student)))
        return {"mean_squared_difference": difference}
    same = teacher.argmax(axis=1) == student.argmax(axis=1)
    sides = (scipy.special.log_softmax(one, 1) for one in (teacher, student))
    return {
        "same_top_class": float(same.mean()),
        "kl_divergence": kl_divergence(*sides),
    }


def kl_divergence(log_teacher, log_student) -> float:
    """Returns the mean over rows of KL(teacher ‖ student), in nats."""
    terms = np.exp(log_teacher) * (log_teacher - log_student)
    return float(terms.sum(axis=1).mean())


def require_same_shape(first, second) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays as float64; raises an error for other shapes."""
    first, second = np.asarray(first, "float64"), np.asarray(second, "float64")
    if first.shape != second.shape or first.ndim != 2 or not first.size:
        raise UsageError(
            "Expected two arrays of the same shape (num_rows, width). "
            f"Received: {first.shape} and {second.shape}."
        )
    return first, second


def generation_metrics(
    hypotheses: list[str],
    references: list[str],
    language: str | None = None,
) -> dict[str, float]:
    """Measures how close texts are to their references.

    Counts of n-grams are summed over all texts before they are divided. Texts
    are plain: detokenized and cased. sacrebleu tokenizes them itself.

    Args:
        hypotheses: list of strings. The model's texts.
        references: list of strings. The reference for each of `hypotheses`, in
            the same order.
        language: string or `None`. The language of the texts, such as `"de"`
            or `"zh-TW"`. For Chinese, Japanese and Korean, whose words are not
            separated by spaces, sacrebleu uses special tokenizers. Defaults to
            `None`.

    Returns:
        A dict of floats from 0 to 100: `bleu`, over n-grams of 1 to 4 words,
        and `chrf`, over n-grams of 1 to 6 characters. `generation_signatures`
        returns how each was computed.

    Raises:
        UsageError: (a `ValueError`) if the numbers of texts differ.

    Example:

    >>> kdkit.tasks.generation_metrics(["A man runs home."], ["A man runs."])
    {'bleu': 42.7..., 'chrf': 75.7...}

    References:
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
     - [Papineni et al., 2002](https://aclanthology.org/P02-1040)
     - [Popović, 2015](https://aclanthology.org/W15-3049)
    """
    if len(hypotheses) != len(references):
        raise UsageError(
            "BLEU and chrF need a reference for each text. Received: "
            f"{len(hypotheses)} hypotheses, {len(references)} references."
        )
    return {
        name: float(metric.corpus_score(hypotheses, None).score)
        for name, metric in _metrics(references, language).items()
    }


def generation_signatures(language: str | None = None) -> dict[str, str]:
    """Returns sacrebleu's signature for each of `generation_metrics`.

    A signature contains everything that a score depends on: the number of
    references, case, tokenization, smoothing, sacrebleu's version. Only scores
    with the same signature are comparable.

    Args:
        language: string or `None`. As in `generation_metrics`. Defaults to
            `None`.

    Returns:
        A dict from the name of a metric to a string.
    """
    return {
        name: str(metric.get_signature())
        for name, metric in _metrics(["any"], language).items()
    }


def _metrics(references, language):
    """Returns sacrebleu's metrics with its defaults, one reference per text."""
    # Without script and country, which sacrebleu does not know.
    code = (language or "").lower().replace("_", "-").partition("-")[0]
    return {
        "bleu": sacrebleu.BLEU(references=[references], trg_lang=code),
        "chrf": sacrebleu.CHRF(references=[references]),
    }
