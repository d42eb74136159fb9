"""Summaries of models' answers on dev, for the report of their run."""

import numpy as np
import scipy.special

from kdkit.data.encoding import as_given, was_read
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


def summarize(
    arm: str, evaluator: Evaluator, logits: np.ndarray, train_examples: int
) -> Predictions:
    """Returns a model's confusion matrix, or what its kind of task has."""
    task, targets = evaluator.task, evaluator.encoded.targets
    chance, constant = _chance(task, targets)
    return Predictions(
        arm=arm,
        split=evaluator.split,
        examples=len(evaluator.encoded),
        train_examples=train_examples,
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
    student, teacher = map(task.kind.predict, (student_logits, teacher_logits))
    shares = (None, None)
    if isinstance(task.kind, Regression):
        weight, differ = abs(student - teacher), student != teacher
    elif isinstance(task.kind, MultiLabel):
        distances = scipy.special.expit(student_logits) - scipy.special.expit(
            teacher_logits
        )
        weight = abs(distances).max(axis=1)
        differ = (student != teacher).any(axis=1)
    else:
        shares = [
            scipy.special.softmax(one, axis=1).max(axis=1)
            for one in (student_logits, teacher_logits)
        ]
        weight, differ = shares[0] * shares[1], student != teacher
    rows = np.flatnonzero(differ)
    rows = rows[np.argsort(-weight[rows], kind="stable")]
    found = [
        Difference(
            text=tuple(_text(column[row]) for column in examples.texts),
            label=_answer(task, evaluator.encoded.targets[row]),
            student=_answer(task, student[row]),
            teacher=_answer(task, teacher[row]),
            **{
                name: float(share[row])
                for name, share in zip(
                    ("student_share", "teacher_share"), shares, strict=True
                )
                if share is not None
            },
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
    kind = task.kind
    if isinstance(kind, Polyphones):  # a character's usual reading is in train
        return None, None
    if isinstance(kind, MultiLabel):
        targets = np.asarray(targets)
        row = np.where(targets.mean(axis=0) > 0.5, 1.0, -1.0)
        words = "the more frequent decision for each class"
        count = len(targets)
    elif isinstance(kind, Regression):
        mean = float(np.mean(targets))
        row, count = np.array([mean]), len(targets)
        words = f"the mean score, {mean:{_SCORE}}"
    else:
        is_by_word = isinstance(kind, Tagging)
        labels = np.concatenate(targets) if is_by_word else targets
        labels = np.asarray(labels)[was_read(np.asarray(labels))]
        known = labels[labels >= 0]
        if not len(known):
            return None, None
        usual = int(np.bincount(known).argmax())
        row = np.zeros(kind.num_classes)
        row[usual] = 1.0
        words, count = f"always “{kind.class_names[usual]}”", len(labels)
    metrics = task.compute_metrics(targets, np.tile(row, (count, 1)))
    return metrics, words


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
        pairs = zip(targets[::step], answers[::step], strict=True)
        return {
            "scores": tuple((float(one), float(other)) for one, other in pairs)
        }
    labels, unit = targets, "examples"
    if isinstance(kind, Tagging):
        labels, unit = as_given(np.concatenate(targets)), "words"
        labels = labels[was_read(np.concatenate(targets))]
    labels = np.asarray(labels)
    is_known = labels >= 0
    names = kind.class_names
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels[is_known], answers[is_known]), 1)
    if len(names) <= MOST_CLASSES:
        matrix = tuple(tuple(map(int, row)) for row in counts)
        return {"classes": names, "confusion": matrix, "unit": unit}
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
