"""Whether a teacher knows its task: beside the most frequent class."""

import numpy as np

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import share
from kdkit.doctor.rows import are_alike
from kdkit.tasks import Regression
from kdkit.tasks import Task
from kdkit.tasks.baseline import FEWEST_ANSWERS

CHECK = "teacher accuracy"
RETRAIN = (
    "Use a teacher that was fine-tuned on this task: kdkit train-teacher, or "
    "more epochs or another learning rate of it."
)


def teacher_accuracy(
    task: Task,
    targets,
    logits: np.ndarray,
    constant: float | None = None,
    check: str = CHECK,
) -> Finding:
    """Compares a teacher's answers on dev with one answer for all rows.

    The run is ruined where the teacher is no better and its answers do not
    depend on the labels, or depend on them the wrong way round; not for
    generated sentences, which are for trying things out, or fewer than 100
    answers, which cannot tell. Labels that are all alike are compared with
    nothing.

    Args:
        task: `kdkit.tasks.Task`.
        targets: labels as `Task.compute_metrics` takes them.
        logits: float array of shape `(num_labels, num_classes)`.
        constant: float or `None`. The accuracy that takes no model, where it
            is not that of the most frequent class. Defaults to `None`.
        check: string, as in `Finding`. Defaults to `"teacher accuracy"`.
    """
    broken = int((~np.isfinite(logits)).any(axis=-1).sum())
    if broken:
        return Finding(
            check,
            RUINS,
            f"The logits of {broken} of {len(logits)} answers are not finite.",
            "The teacher has diverged. Train it anew, with a smaller learning "
            "rate.",
        )
    if are_alike(task, targets):
        return Finding(
            check,
            NOTE,
            f"The labels of {len(targets)} rows are all alike, so that one "
            "answer for all of them is right: its own tell nothing.",
        )
    baseline = task.kind.baseline(targets, logits)
    level = baseline.constant if constant is None else constant
    found = _found(baseline, level, constant is not None, task)
    is_better = baseline.model > level
    is_blind = not baseline.is_related if constant is None else not is_better
    is_reversed = isinstance(task.kind, Regression) and (
        baseline.is_related and baseline.correlation < 0
    )
    if (is_blind and not is_better) or is_reversed:
        return Finding(
            check, _gravity(task, baseline.num_answers), found, RETRAIN
        )
    if not is_better and isinstance(task.kind, Regression):
        scores = task.kind.predict(logits)
        return Finding(
            check,
            WARNING,
            f"{found} Its scores go from {scores.min():.2f} to "
            f"{scores.max():.2f}, the labels from {np.min(targets):.2f} to "
            f"{np.max(targets):.2f}.",
            "It orders the rows and scores on another scale. Use a teacher "
            "that was trained on these labels.",
        )
    if not is_better and baseline.correlation < 0:
        return Finding(
            check,
            WARNING,
            found,
            "Its answers run against the labels. Check the order of the "
            "classes, in labels.txt where the task has one.",
        )
    if not is_better:
        return Finding(
            check,
            WARNING,
            found,
            "It knows something of the labels and names classes too often or "
            "too seldom. Look at the balance of the classes.",
        )
    spread = 1 / np.sqrt(baseline.num_answers)
    if baseline.model - level < spread:
        return Finding(
            check,
            NOTE,
            f"{found} The difference may be chance.",
            "Measure it on more rows: kdkit evaluate TEACHER.",
        )
    return Finding(check, OK, found)


def _gravity(task, num_answers):
    """Whether a bad teacher ruins anything, and that can be told."""
    if task.generate is not None or num_answers < FEWEST_ANSWERS:
        return WARNING
    return RUINS


def _found(baseline, level, is_by_word, task):
    count = baseline.num_answers
    if isinstance(task.kind, Regression):
        return (
            f"On {count} rows the scores explain "
            f"{100 * baseline.model:.1f} % of the labels' variance, their mean "
            f"0 %; correlation {baseline.correlation:.2f}."
        )
    others = "each word's usual label" if is_by_word else "the usual class"
    if baseline.measure != "accuracy":
        others = "each class' usual answer"
    return (
        f"Of {count} answers {share(baseline.model, 1)} are right; {others} "
        f"alone would be in {share(level, 1)}. Correlation with the labels "
        f"{baseline.correlation:.2f}."
    )
