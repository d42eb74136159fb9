"""When a model counts as collapsed, for each kind of task."""

import numpy as np
import pytest

from kdkit.tasks import MultiLabel, Regression, SingleLabel
from kdkit.tasks.kinds import MultipleChoice, Polyphones, Tagging

ROWS = 400


def one_hot(answers, num_classes=2):
    return np.eye(num_classes)[answers]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("answer", [0, 1])
def test_one_answer_for_all_rows(share, answer, rng):
    labels = (rng.random(ROWS) < share).astype(int)
    kind = SingleLabel(("no", "yes"))
    text = kind.collapse(labels, one_hot(np.full(ROWS, answer)))
    assert text == "gives every example the same answer"


def test_labels_that_are_all_alike_tell_nothing():
    labels = np.zeros(ROWS, int)
    assert SingleLabel(("no", "yes")).collapse(labels, one_hot(labels)) is None


@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_coins_collapse_and_models_do_not(num_classes, rng):
    """A coin is taken for a model in about one of 370 cases."""
    kind = SingleLabel(tuple("abcde"[:num_classes]))
    missed = 0
    for _ in range(100):
        labels = rng.integers(num_classes, size=ROWS)
        coin = rng.integers(num_classes, size=ROWS)
        missed += kind.collapse(labels, one_hot(coin, num_classes)) is None
        better = np.where(rng.random(ROWS) < 0.4, labels, coin)
        assert kind.collapse(labels, one_hot(better, num_classes)) is None
    assert missed <= 2


def test_a_rare_class_that_is_known_is_no_collapse():
    """As right as the commonest class, with half of the rare ones found."""
    labels = np.repeat([0, 1], [40, 360])
    answers = labels.copy()
    answers[:20] = 1  # missed
    answers[40:60] = 0  # false alarms
    assert np.mean(answers == labels) == 0.9
    kind = SingleLabel(("no", "yes"))
    assert kind.collapse(labels, one_hot(answers)) is None


def test_few_rows_accuse_nobody_but_of_one_answer():
    labels = np.arange(60) % 2
    coin = np.arange(60) // 2 % 2
    kind = SingleLabel(("no", "yes"))
    assert kind.collapse(labels, one_hot(coin)) is None
    assert kind.collapse(labels, one_hot(np.zeros(60, int)))
    assert kind.collapse(labels[:10], one_hot(np.zeros(10, int)))
    assert kind.collapse(labels[:8], one_hot(np.zeros(8, int))) is None
    rare = (np.arange(ROWS) < 4).astype(int)
    assert kind.collapse(rare, one_hot(np.zeros(ROWS, int))) is None


def test_scores(rng):
    labels = rng.normal(size=ROWS)
    for scores, collapsed in (
        (np.full(ROWS, 0.3), "the same answer"),
        (rng.normal(size=ROWS), "do not depend on the labels"),
        (0.01 * labels + 5 + 0.01 * rng.normal(size=ROWS), None),
        (-labels, None),  # the wrong way round, which is another thing
    ):
        text = Regression().collapse(labels, scores[:, None])
        assert text is None if collapsed is None else collapsed in text


def test_several_labels_a_row(rng):
    kind = MultiLabel(("a", "b", "c"))
    labels = (rng.random((ROWS, 3)) < 0.1).astype(int)
    none = np.full((ROWS, 3), -1.0)
    coin = np.where(rng.random((ROWS, 3)) < 0.1, 1.0, -1.0)
    found = np.where(rng.random((ROWS, 3)) < 0.3, 2 * labels - 1.0, coin)
    assert kind.collapse(labels, none) == "gives every example the same answer"
    assert "do not depend" in kind.collapse(labels, coin)
    assert kind.collapse(labels, found) is None


def test_tags_and_choices(rng):
    tags = Tagging(("O", "B-PER"))
    words = [np.array([0, 1, 0, 0])] * 50
    flat = np.concatenate(words)
    assert tags.collapse(words, one_hot(np.zeros(200, int)))
    assert tags.collapse(words, one_hot(flat)) is None
    choices = MultipleChoice(("A", "B", "C", "D"))
    labels = rng.integers(4, size=ROWS)
    assert choices.collapse(labels, one_hot(rng.integers(4, size=ROWS), 4))
    assert choices.collapse(labels, one_hot(labels, 4)) is None
    # Readings differ from character to character: nothing is concluded.
    readings = Polyphones(("le5", "liao3"))
    assert readings.collapse(words, one_hot(np.zeros(200, int))) is None
