"""The doctor's checks of models: a teacher or student with one problem."""

import dataclasses

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import TinyBackbone, batch, bert, classifier

from kdkit import doctor
from kdkit.doctor import NOTE, OK, RUINS, WARNING
from kdkit.tasks import MultiLabel, get_task

ROWS = 200


def rng(seed=0):
    return np.random.default_rng(seed)


def mostly(labels, num_classes, share=0.8, seed=0):
    """Classes that are right for a share of the labels."""
    generator = rng(seed)
    wrong = generator.random(len(labels)) > share
    others = generator.integers(num_classes, size=len(labels))
    return np.where(wrong, others, labels)


TWO = rng().integers(2, size=ROWS)
UNEQUAL = (rng().random(ROWS) < 0.6).astype(int)
FOUR = rng().integers(4, size=ROWS)
SCORES = rng().uniform(0, 5, size=ROWS)
SEVERAL = (rng().random((ROWS, 3)) < [0.1, 0.3, 0.5]).astype(int)
EMOTIONS = dataclasses.replace(
    get_task("multi_label"), kind=MultiLabel(("joy", "fear", "anger"))
)
USUAL = f"the usual class alone would be in {100 * UNEQUAL.mean():.1f} %"
TEACHERS = {
    "knows": ("sst2", TWO, np.eye(2)[mostly(TWO, 2)], OK, "% are right"),
    "one class": ("sst2", UNEQUAL, np.eye(2)[[1] * ROWS], RUINS, USUAL),
    "guesses": (
        "sst2", UNEQUAL, np.eye(2)[rng(7).integers(2, size=ROWS)], RUINS, USUAL
    ),
    "few rows": ("sst2", np.arange(64) % 2, np.eye(2)[[1] * 64], WARNING, ""),
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
        EMOTIONS, SEVERAL, 0.0 * SEVERAL - 1, RUINS, "each class's usual answer"
    ),
    "options": ("race_middle", FOUR, np.eye(4)[mostly(FOUR, 4)], OK, ""),
    "first option": ("race_middle", FOUR, np.eye(4)[0 * FOUR], RUINS, ""),
}  # fmt: skip


@pytest.mark.parametrize("teacher", TEACHERS)
def test_a_teachers_answers_are_compared_with_the_usual_one(teacher):
    task, labels, logits, outcome, said = TEACHERS[teacher]
    task = get_task(task) if isinstance(task, str) else task
    finding = doctor.teacher_accuracy(task, labels, logits)
    assert finding.outcome == outcome
    assert said in finding.found


def test_probabilities_in_the_place_of_logits_ruin_the_run():
    logits = rng().normal(size=(ROWS, 3))
    shares = np.asarray(keras.ops.softmax(logits)).astype("float16")
    for given, outcome in (
        (logits, OK),
        (np.log(shares), OK),
        (shares, RUINS),
        (shares[:5], NOTE),
    ):
        assert doctor.teacher_logits(given).outcome == outcome


MNLI = ("contradiction", "entailment", "neutral")
THREE = rng().integers(3, size=ROWS)


def test_another_order_of_the_labels_is_found_and_named():
    """MNLI's teacher and data count their classes differently."""
    good = mostly(THREE, 3, 0.85)
    theirs = np.array([1, 2, 0])[good]
    finding = doctor.label_order(MNLI, THREE, theirs)
    assert finding.outcome == RUINS
    now, best = np.mean(theirs == THREE), np.mean(good == THREE)
    for words in (
        "the teacher's class 1 is this data's 'contradiction'",
        f"{100 * now:.1f} % of {ROWS} rows are right",
        f"{100 * best:.1f} % in another order",
    ):
        assert words in finding.found


@pytest.mark.parametrize(
    "classes",
    [mostly(THREE, 3, 0.85), rng(5).integers(3, size=ROWS), 0 * THREE],
    ids=["right", "bad", "constant"],
)
def test_a_bad_teacher_is_not_taken_for_another_order(classes):
    assert doctor.label_order(MNLI, THREE, classes).outcome == OK


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
    names = tuple(map(str, range(num_classes)))
    assert doctor.label_order(names, labels, classes).outcome == OK


class AlwaysDropped(keras.layers.Layer):
    """A dropout that does not look at `training`."""

    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(0)

    def call(self, inputs):
        return keras.random.dropout(inputs, 0.5, seed=self.generator)


def noisy():
    model = bert()
    return keras.Model(model.input, AlwaysDropped()(model.output))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (noisy, "other logits the second time"),
        (lambda: classifier(TinyBackbone()), "calls"),
    ],
    ids=["dropout", "weights"],
)
def test_a_teacher_that_changes_in_inference_ruins_the_run(make, said):
    model = make()

    def forward(rows):
        return model({name: rows[name] for name in model.input}, training=False)

    finding = doctor.teacher_at_rest(model, forward, batch())
    assert finding.outcome == RUINS
    assert said in finding.found


def test_a_teacher_that_would_be_trained_ruins_the_run():
    teacher = bert()
    assert doctor.teacher_frozen(teacher, bert(seed=1)).outcome == OK
    states = teacher.backbone.output["sequence_output"]
    logits = keras.layers.Dense(2)(states[:, 0])
    student = keras.Model(teacher.backbone.input, logits)
    assert doctor.teacher_frozen(teacher, student).outcome == RUINS


def test_a_student_that_begins_with_nan_ruins_the_run():
    """From a checkpoint that had diverged."""
    student = bert()
    assert doctor.finite_weights(student).outcome == OK
    weight = student.weights[3]
    weight.assign(np.full(weight.shape, np.nan))
    finding = doctor.finite_weights(student)
    assert finding.outcome == RUINS
    assert f"1 of {len(student.weights)} are not finite" in finding.found
    assert weight.path in finding.found


def test_fewer_embeddings_than_ids_ruin_the_run_and_more_are_a_note():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = keras_hub.tokenizers.BertTokenizer([*special, "a", "b", "c"])
    assert doctor.table_size(pieces, 8, "teacher") is None
    assert doctor.table_size(pieces, 7, "teacher").outcome == RUINS
    padded = doctor.table_size(pieces, 16, "teacher")
    assert padded.outcome == NOTE
    assert "8 more" in padded.found
