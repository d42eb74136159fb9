"""Summaries of models' answers on dev, for the report of their run."""

import dataclasses

import numpy as np
import scipy.special

from kdkit.data.encoding import was_read
from kdkit.data.tables import Examples
from kdkit.runs.predictions import Confused, Difference, Predictions
from kdkit.tasks.kinds import (
    MultiLabel,
    MultipleChoice,
    Polyphones,
    Regression,
    Tagging,
)
from kdkit.training.tasks import Evaluator

MOST_CLASSES = 20  # in a confusion matrix
MOST_PAIRS = 20  # of a label and a wrong answer
MOST_DIFFERENCES = 20
MOST_SCORES = 300
LONGEST_TEXT = 400  # characters
_SCORE = ".3g"


def answers(
    arm: str,
    evaluator: Evaluator,
    logits: np.ndarray,
    examples,
) -> list[Predictions]:
    """Returns the summaries of a model, after its first teacher's."""
    found = summarize(arm, evaluator, logits)
    if not evaluator.teachers_logits:
        return [found]
    teacher, *_ = evaluator.teachers_logits
    differences = find_differences(evaluator, examples, logits, teacher)
    return [
        summarize("teacher", evaluator, teacher),
        dataclasses.replace(found, **differences),
    ]


def summarize(
    arm: str, evaluator: Evaluator, logits: np.ndarray
) -> Predictions:
    """Returns a model's confusion matrix, or what its kind of task has."""
    task, targets = evaluator.task, evaluator.encoded.targets
    chance, constant = _chance(task, targets)
    return Predictions(
        arm=arm,
        examples=len(evaluator.encoded),
        chance=chance,
        constant=constant,
        **_details(task, targets, logits),
    )


def find_differences(
    evaluator: Evaluator,
    examples,
    student_logits: np.ndarray,
    teacher_logits: np.ndarray,
) -> dict:
    """Returns the examples where two models give different answers."""
    task = evaluator.task
    if not isinstance(examples, Examples):
        return {}
    both, shares = (student_logits, teacher_logits), None
    student, teacher = map(task.kind.predict, both)
    differ = student != teacher
    if isinstance(task.kind, Regression):
        weight = abs(student - teacher)
    elif isinstance(task.kind, MultiLabel):
        first, second = map(scipy.special.expit, both)
        weight, differ = abs(first - second).max(axis=1), differ.any(axis=1)
    else:
        probabilities = (scipy.special.softmax(one, axis=1) for one in both)
        shares = [one.max(axis=1) for one in probabilities]
        weight = np.prod(shares, axis=0)
    rows = np.flatnonzero(differ)
    rows = rows[np.argsort(-weight[rows], kind="stable")]
    found = [
        Difference(
            text=tuple(_text(column[row]) for column in examples.texts),
            label=_answer(task, evaluator.encoded.targets[row]),
            student=_answer(task, student[row]),
            teacher=_answer(task, teacher[row]),
            student_share=None if shares is None else float(shares[0][row]),
            teacher_share=None if shares is None else float(shares[1][row]),
        )
        for row in rows[:MOST_DIFFERENCES]
    ]
    is_counted = not isinstance(task.kind, Regression)
    return {
        "differing": len(rows) if is_counted else None,
        "differences": tuple(found),
    }


def _chance(task, targets):
    """The metrics of the best constant answer, and that answer in words."""
    kind, count = task.kind, len(targets)
    if isinstance(kind, Polyphones):  # a character's usual reading is in train
        return None, None
    if isinstance(kind, MultiLabel):
        row = np.where(np.mean(targets, axis=0) > 0.5, 1.0, -1.0)
        words = "the more frequent decision for each class"
    elif isinstance(kind, Regression):
        row = float(np.mean(targets))
        words = f"the mean score, {row:{_SCORE}}"
    else:
        labels = _class_labels(kind, targets)
        known, count = labels[labels >= 0], len(labels)
        if not len(known):
            return None, None
        usual = np.bincount(known).argmax()
        row = np.eye(kind.num_classes)[usual]
        words = f"always “{kind.class_names[usual]}”"
    metrics = task.compute_metrics(targets, np.tile(row, (count, 1)))
    return metrics, words


def _class_labels(kind, targets):
    """The labels of examples, or of the words that were not truncated."""
    is_by_word = isinstance(kind, Tagging)
    labels = np.asarray(np.concatenate(targets) if is_by_word else targets)
    return labels[was_read(labels)]


def _details(task, targets, logits):
    """The confusion matrix, the errors or the scores, or why there are none."""
    kind = task.kind
    if isinstance(kind, MultipleChoice):
        return {
            "reason": "The options of a question are not classes, so there is "
            "no confusion matrix."
        }
    if isinstance(kind, MultiLabel):
        return {
            "reason": "An example has any number of labels, so there is no "
            "confusion matrix."
        }
    answers = kind.predict(logits)
    if isinstance(kind, Regression):
        step = -(-len(answers) // MOST_SCORES)
        return {"scores": np.stack([targets, answers], axis=1)[::step].tolist()}
    unit = "words" if isinstance(kind, Tagging) else "examples"
    labels, names = _class_labels(kind, targets), kind.class_names
    is_known = labels >= 0
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels[is_known], answers[is_known]), 1)
    if len(names) <= MOST_CLASSES:
        return {"classes": names, "confusion": counts.tolist(), "unit": unit}
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = zip(*np.unravel_index(order, counts.shape), strict=True)
    return {
        "unit": unit,
        "confused": tuple(
            Confused(
                label=names[label],
                answer=names[answer],
                count=int(counts[label, answer]),
            )
            for label, answer in pairs
            if counts[label, answer]
        ),
    }


def _answer(task, value):
    """A label or an answer in words."""
    names = task.kind.class_names
    if isinstance(task.kind, Regression):
        return f"{float(value):{_SCORE}}"
    if isinstance(task.kind, MultiLabel):
        present = [names[number] for number in np.flatnonzero(value)]
        return ", ".join(present) or "none"
    return names[int(value)] if int(value) >= 0 else "unknown class"


def _text(text):
    is_long = len(text) > LONGEST_TEXT
    return f"{text[:LONGEST_TEXT]}…" if is_long else text
