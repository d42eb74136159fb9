"""Standard errors of measured numbers, and differences beyond them."""

import statistics
from collections.abc import Sequence

from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.tables import metric_names

NOISE = 2.0  # standard errors
WITHIN_NOISE = "within two standard errors"
SHARES = ("accuracy", "subset_accuracy")
CORRELATIONS = ("matthews_correlation", "pearson", "spearman")


def standard_error(
    metric: str, values: Sequence[float], examples: int | None
) -> float | None:
    """Returns the standard error of a metric, or of its mean over seeds.

    - Of k values with sample standard deviation s, one for each seed: s / √k.
    - Of one share p of n examples: √(p (1 − p) / n).
    - Of one correlation r over n examples: (1 − r²) / √n.

    Args:
        metric: string.
        values: sequence of floats, at least one.
        examples: int or `None`. How many examples they were measured on.

    Returns:
        Float, or `None` for one value of another metric, such as F1 or a
        perplexity, which no such formula is known for.

    >>> standard_error("accuracy", [0.8], 400)
    0.02
    >>> round(standard_error("f1", [0.80, 0.82, 0.84], None), 4)
    0.0115
    """
    if len(values) > 1:
        return statistics.stdev(values) / len(values) ** 0.5
    (value,) = values
    if not examples or not -1 <= value <= 1:
        return None
    if metric in SHARES and value >= 0:
        return (value * (1 - value) / examples) ** 0.5
    if metric in CORRELATIONS:
        return (1 - value**2) / examples**0.5
    return None


def difference_error(
    metric: str,
    first: Sequence[float],
    second: Sequence[float],
    examples: int | None,
    disagreement: float | None = None,
) -> float | None:
    """Returns the standard error of the difference of two models.

    √(e₁² + e₂²), with the `standard_error` of each. Of two shares a and b of
    the same n examples, where the models' answers differ in a share d of them:
    √((d − (a − b)²) / n), which counts that most examples are right or wrong
    for both; d is at least |a − b|.

    Args:
        metric: string.
        first: sequence of floats, one for each seed.
        second: sequence of floats, one for each seed.
        examples: int or `None`. As in `standard_error`.
        disagreement: float or `None`. The share d, if it is known. Defaults to
            `None`.

    >>> difference_error("accuracy", [0.80], [0.78], 400, disagreement=0.04)
    0.00994...
    """
    is_paired = metric in SHARES and len(first) == len(second) == 1
    if is_paired and disagreement is not None and examples:
        distance = first[0] - second[0]
        differ = max(disagreement, abs(distance))
        return ((differ - distance**2) / examples) ** 0.5
    errors = [
        standard_error(metric, values, examples) for values in (first, second)
    ]
    if None in errors:
        return None
    return sum(error**2 for error in errors) ** 0.5


def is_noise(
    metric: str,
    first: Sequence[float],
    second: Sequence[float],
    examples: int | None,
    disagreement: float | None = None,
) -> bool:
    """Whether two models differ by no more than two standard errors.

    Args:
        metric, first, second, examples, disagreement: as in
            `difference_error`.

    Returns:
        Boolean; `False` where the error is not known.
    """
    error = difference_error(metric, first, second, examples, disagreement)
    if error is None:
        return False
    distance = statistics.fmean(first) - statistics.fmean(second)
    return abs(distance) <= NOISE * error


def arms_are_alike(
    group: Sequence[RunRecords], first: str, second: str
) -> bool:
    """Whether two arms differ by no more than noise in the main metric.

    Args:
        group: sequence of `RunRecords` that differ only in their seed.
        first: string. An arm, not `"teacher"`.
        second: string. Another arm.
    """
    metric = metric_names(group[0])[0]
    values = [metric_values(group, arm) for arm in (first, second)]
    if not all(values):
        return False
    evaluation = best_evaluation(group[0], first)
    disagreement = None
    if second == "teacher" and "same_top_class" in evaluation.agreement:
        disagreement = 1 - evaluation.agreement["same_top_class"]
    return is_noise(metric, *values, evaluation.examples, disagreement)


def metric_values(group, arm, metric=None) -> list[float]:
    """Returns a metric of an arm in each run that has it; the main one."""
    metric = metric or metric_names(group[0])[0]
    if arm == "teacher":
        # One that several runs share counts once.
        group = {_teacher_place(run): run for run in group}.values()
    evaluations = [best_evaluation(run, arm) for run in group]
    return [
        evaluation.metrics[metric]
        for evaluation in evaluations
        if evaluation is not None and metric in evaluation.metrics
    ]


def _teacher_place(run):
    if run.teacher_run is not None:
        return str(run.teacher_run.run_dir.resolve())
    return str(run.config.get("teacher"))
