"""The doctor's checks of teachers: answers with one problem."""

import dataclasses
import types

import keras
import numpy as np
import pytest

from kdkit.doctor import OK, RUINS, WARNING, teachers
from kdkit.tasks import MultiLabel, SingleLabel, get_task

ROWS = 200


def rng(seed=0):
    return np.random.default_rng(seed)


def mostly(labels, num_classes, share=0.8, seed=0):
    """Classes that are right for a share of the labels."""
    generator = rng(seed)
    wrong = generator.random(len(labels)) > share
    others = generator.integers(num_classes, size=len(labels))
    return np.where(wrong, others, labels)


def finding(check, task, labels, logits):
    """The outcome of a check on a teacher's answers, and the facts."""
    answers = [("teacher on dev", "dev", labels, logits)]
    run = types.SimpleNamespace(task=task, answers=answers)
    ((outcome, found, *_),) = check(run)
    return outcome, found


TWO = rng().integers(2, size=ROWS)
UNEQUAL = (rng().random(ROWS) < 0.6).astype(int)
FOUR = rng().integers(4, size=ROWS)
SCORES = rng().uniform(0, 5, size=ROWS)
SEVERAL = (rng().random((ROWS, 3)) < [0.1, 0.3, 0.5]).astype(int)
EMOTIONS = dataclasses.replace(
    get_task("multi_label"), kind=MultiLabel(("joy", "fear", "anger"))
)
USUAL = f"best constant answer {100 * UNEQUAL.mean():.1f} %"
TEACHERS = {
    "knows": ("sst2", TWO, np.eye(2)[mostly(TWO, 2)], OK, "accuracy"),
    "one class": ("sst2", UNEQUAL, np.eye(2)[[1] * ROWS], RUINS, USUAL),
    "guesses": (
        "sst2", UNEQUAL, np.eye(2)[rng(7).integers(2, size=ROWS)], RUINS, USUAL
    ),
    "few rows": ("sst2", np.arange(64) % 2, np.eye(2)[[1] * 64], WARNING, ""),
    "one label": ("sst2", 0 * TWO, np.eye(2)[[1] * ROWS], OK, ""),
    "generated": (
        "sentiment", np.arange(ROWS) % 2, np.eye(2)[[1] * ROWS], WARNING, ""
    ),
    "not finite": (
        "sst2", 0 * TWO, np.full((ROWS, 2), np.nan), RUINS, f"{ROWS} of {ROWS}"
    ),
    "scores": ("stsb", SCORES, SCORES[:, np.newaxis] + 0.3, OK, ""),
    "blind scores": (
        "stsb", SCORES, rng(1).normal(2.5, 0.1, (ROWS, 1)), RUINS, ""
    ),
    "reversed scores": ("stsb", SCORES, 5 - SCORES[:, np.newaxis], RUINS, ""),
    "several": (EMOTIONS, SEVERAL, 2.0 * SEVERAL - 1, OK, ""),
    "several at once": (
        EMOTIONS, SEVERAL, 0.0 * SEVERAL - 1, RUINS, "share of right decisions"
    ),
    "options": ("race_middle", FOUR, np.eye(4)[mostly(FOUR, 4)], OK, ""),
    "first option": ("race_middle", FOUR, np.eye(4)[0 * FOUR], RUINS, ""),
}  # fmt: skip


@pytest.mark.parametrize("teacher", TEACHERS)
def test_a_teachers_answers_are_compared_with_a_constant_one(teacher):
    task, labels, logits, outcome, said = TEACHERS[teacher]
    task = get_task(task) if isinstance(task, str) else task
    found = finding(teachers.teacher_accuracy, task, labels, logits)
    assert found[0] == outcome
    assert said in found[1]


def test_probabilities_in_the_place_of_logits_ruin_the_run():
    logits = rng().normal(size=(ROWS, 3))
    shares = np.asarray(keras.ops.softmax(logits)).astype("float16")
    for given, outcome in (
        (logits, OK),
        (np.log(shares), OK),
        (shares, RUINS),
        (shares[:5], OK),
    ):
        found = finding(teachers.teacher_logits, None, None, given)
        assert found[0] == outcome


THREE = rng().integers(3, size=ROWS)


def order(names, labels, classes):
    kind = SingleLabel(tuple(names))
    task = types.SimpleNamespace(
        kind=kind, class_names=kind.class_names, table=None
    )
    logits = np.eye(len(kind.class_names))[classes]
    return finding(teachers.label_order, task, labels, logits)


MNLI = ("contradiction", "entailment", "neutral")


def test_another_order_of_the_labels_is_found_and_named():
    """MNLI's teacher and data count their classes differently."""
    good = mostly(THREE, 3, 0.85)
    theirs = np.array([1, 2, 0])[good]
    outcome, found = order(MNLI, THREE, theirs)
    assert outcome == RUINS
    now, best = np.mean(theirs == THREE), np.mean(good == THREE)
    for words in (
        "the teacher's class 1 is this data's 'contradiction'",
        f"{100 * now:.1f} % of {ROWS} answers are right",
        f"{100 * best:.1f} % in another order",
    ):
        assert words in found


@pytest.mark.parametrize(
    "classes",
    [mostly(THREE, 3, 0.85), rng(5).integers(3, size=ROWS), 0 * THREE],
    ids=["right", "bad", "constant"],
)
def test_a_bad_teacher_is_not_taken_for_another_order(classes):
    assert order(MNLI, THREE, classes)[0] == OK


@pytest.mark.parametrize(
    ("num_rows", "num_classes", "accuracy"),
    [(1000, 500, 0.3), (256, 500, 0.3), (64, 150, 0.2)],
)
def test_the_best_order_of_many_classes_is_counted_on_other_rows(
    num_rows, num_classes, accuracy
):
    """The best of all orders fits the rows that it was found in."""
    labels = rng(1).integers(num_classes, size=num_rows)
    generator = rng()
    is_right = generator.random(num_rows) < accuracy
    steps = generator.integers(1, num_classes, num_rows)
    classes = np.where(is_right, labels, (labels + steps) % num_classes)
    assert order(map(str, range(num_classes)), labels, classes)[0] == OK
