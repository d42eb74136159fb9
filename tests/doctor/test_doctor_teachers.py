"""Each check of a teacher, on one with exactly that problem."""

import dataclasses

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import TinyBackbone, batch, bert, classifier

from kdkit import doctor
from kdkit.doctor import OK, RUINS, WARNING
from kdkit.tasks import MultiLabel, get_task
from kdkit.training.task_data import make_forward

ROWS = 200


def rng():
    return np.random.default_rng(0)


def logits_of(classes, num_classes):
    return np.eye(num_classes)[classes]


def mostly(labels, num_classes, share=0.8):
    """Logits that are right for a share of the labels."""
    generator = rng()
    wrong = generator.random(len(labels)) > share
    classes = np.where(
        wrong, generator.integers(num_classes, size=len(labels)), labels
    )
    return logits_of(classes, num_classes)


def accuracy(name, labels, logits, **settings):
    return doctor.teacher_accuracy(get_task(name), labels, logits, **settings)


def test_a_teacher_that_knows_its_task_is_fine():
    labels = rng().integers(2, size=ROWS)
    finding = accuracy("sst2", labels, mostly(labels, 2))
    assert finding.outcome == OK
    right = 100 * np.mean(mostly(labels, 2).argmax(1) == labels)
    assert f"{right:.1f} % are right" in finding.found


@pytest.mark.parametrize("says", ["one class", "anything"])
def test_a_teacher_that_was_not_fine_tuned_ruins_the_run(says):
    labels = (rng().random(ROWS) < 0.6).astype(int)
    classes = np.ones(ROWS, int)
    if says == "anything":
        classes = np.random.default_rng(7).integers(2, size=ROWS)
    finding = accuracy("sst2", labels, logits_of(classes, 2))
    assert finding.outcome == RUINS
    usual = f"the usual class alone would be in {100 * labels.mean():.1f} %"
    assert usual in finding.found
    assert "train-teacher" in finding.advice


def test_few_rows_and_generated_ones_cannot_ruin_a_run():
    labels = np.arange(ROWS) % 2
    constant = logits_of(np.ones(ROWS, int), 2)
    few = accuracy("sst2", labels[:64], constant[:64])
    generated = accuracy("sentiment", labels, constant)
    assert few.outcome == generated.outcome == WARNING


def test_logits_that_are_not_finite_ruin_the_run():
    logits = np.full((ROWS, 2), np.nan)
    finding = accuracy("sst2", np.zeros(ROWS, int), logits)
    assert finding.outcome == RUINS
    assert f"{ROWS} of {ROWS}" in finding.found


def test_probabilities_in_the_place_of_logits_ruin_the_run():
    logits = rng().normal(size=(ROWS, 3))
    shares = np.asarray(keras.ops.softmax(logits)).astype("float16")
    assert doctor.teacher_logits(logits).outcome == OK
    assert doctor.teacher_logits(np.log(shares)).outcome == OK
    finding = doctor.teacher_logits(shares)
    assert finding.outcome == RUINS
    assert "they are probabilities" in finding.found
    assert doctor.teacher_logits(shares[:5]).outcome == doctor.NOTE


def test_scores_are_compared_with_their_mean():
    scores = rng().uniform(0, 5, size=ROWS)
    good = accuracy("stsb", scores, scores[:, np.newaxis] + 0.3)
    assert good.outcome == OK
    blind = accuracy("stsb", scores, rng().normal(2.5, 0.1, (ROWS, 1)))
    assert blind.outcome == RUINS


def test_scores_that_run_the_other_way_ruin_the_run():
    scores = rng().uniform(0, 5, size=ROWS)
    finding = accuracy("stsb", scores, 5 - scores[:, np.newaxis])
    assert finding.outcome == RUINS


def several_labels(logits):
    labels = (rng().random((ROWS, 3)) < [0.1, 0.3, 0.5]).astype(int)
    kind = MultiLabel(("joy", "fear", "anger"))
    task = dataclasses.replace(get_task("multi_label"), kind=kind)
    return doctor.teacher_accuracy(task, labels, logits(labels))


def test_several_labels_are_compared_with_each_class_usual_answer():
    assert several_labels(lambda labels: 2.0 * labels - 1).outcome == OK
    usual = several_labels(lambda labels: np.full((ROWS, 3), -1.0))
    assert usual.outcome == RUINS
    assert "each class's usual answer" in usual.found


def test_options_are_compared_with_the_usual_place():
    labels = rng().integers(4, size=ROWS)
    good = accuracy("race_middle", labels, mostly(labels, 4))
    first = accuracy("race_middle", labels, logits_of(0 * labels, 4))
    assert (good.outcome, first.outcome) == (OK, RUINS)


MNLI = ("contradiction", "entailment", "neutral")


def test_another_order_of_the_labels_is_found_and_named():
    """MNLI's teacher and data count their classes differently."""
    labels = rng().integers(3, size=ROWS)
    good = mostly(labels, 3, 0.85).argmax(axis=1)
    theirs = np.array([1, 2, 0])[good]
    finding = doctor.label_order(MNLI, labels, theirs)
    assert finding.outcome == RUINS
    assert "the teacher's class 1 is this data's 'contradiction'" in (
        finding.found
    )
    now, best = np.mean(theirs == labels), np.mean(good == labels)
    assert f"{100 * now:.1f} % of {ROWS} rows are right" in finding.found
    assert f"{100 * best:.1f} % in another order" in finding.found


def test_the_right_order_and_a_bad_teacher_are_not_taken_for_another():
    labels = rng().integers(3, size=ROWS)
    for classes in (
        mostly(labels, 3, 0.85).argmax(axis=1),
        np.random.default_rng(5).integers(3, size=ROWS),
        np.zeros(ROWS, int),
    ):
        assert doctor.label_order(MNLI, labels, classes).outcome == OK


def mostly_right(labels, num_classes, accuracy):
    """Classes that are wrong without any order."""
    generator = rng()
    is_right = generator.random(len(labels)) < accuracy
    steps = generator.integers(1, num_classes, len(labels))
    return np.where(is_right, labels, (labels + steps) % num_classes)


@pytest.mark.parametrize(
    ("num_rows", "num_classes", "accuracy"),
    [(1000, 500, 0.3), (256, 500, 0.3), (64, 150, 0.2)],
)
def test_the_best_order_of_many_classes_is_counted_on_other_rows(
    num_rows, num_classes, accuracy
):
    """The best of all orders fits the rows that it was found in."""
    labels = np.random.default_rng(1).integers(num_classes, size=num_rows)
    classes = mostly_right(labels, num_classes, accuracy)
    names = tuple(map(str, range(num_classes)))
    assert doctor.label_order(names, labels, classes).outcome == OK


class AlwaysDropped(keras.layers.Layer):
    """A dropout that does not look at `training`."""

    def __init__(self):
        super().__init__()
        self.generator = keras.random.SeedGenerator(0)

    def call(self, inputs):
        return keras.random.dropout(inputs, 0.5, seed=self.generator)


def at_rest(model):
    return doctor.teacher_at_rest(model, make_forward(model), batch())


def test_a_teacher_that_drops_in_inference_ruins_the_run():
    """One that was not put into evaluation mode."""
    model = bert()
    noisy = keras.Model(model.input, AlwaysDropped()(model.output))
    finding = at_rest(noisy)
    assert finding.outcome == RUINS
    assert "other logits the second time" in finding.found


def test_a_teacher_whose_weights_change_ruins_the_run():
    finding = at_rest(classifier(TinyBackbone()))
    assert finding.outcome == RUINS
    assert "calls" in finding.found


def test_a_teacher_that_would_be_trained_ruins_the_run():
    teacher = bert()
    own = bert(seed=1)
    assert doctor.teacher_frozen(teacher, own).outcome == OK
    head = keras.layers.Dense(2)
    states = teacher.backbone.output["sequence_output"]
    student = keras.Model(teacher.backbone.input, head(states[:, 0]))
    finding = doctor.teacher_frozen(teacher, student)
    assert finding.outcome == RUINS
    assert "would be trained" in finding.found


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


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "plot", "The"]


def word_pieces(pieces=PIECES, lowercase=True):
    return keras_hub.tokenizers.BertTokenizer(pieces, lowercase=lowercase)


def test_fewer_embeddings_than_ids_ruin_the_run_and_more_are_a_note():
    tokenizer = word_pieces()
    assert doctor.table_size(tokenizer, 8, "teacher") is None
    assert doctor.table_size(tokenizer, 7, "teacher").outcome == RUINS
    padded = doctor.table_size(tokenizer, 16, "teacher")
    assert padded.outcome == doctor.NOTE
    assert "8 more" in padded.found
