"""Summaries of a model's answers on dev, for the report."""

import numpy as np
import pytest

from kdkit.data.encoding import UNKNOWN
from kdkit.data.examples import Examples
from kdkit.tasks import get_task
from kdkit.tasks.kinds import SingleLabel, Tagging
from kdkit.tasks.task import Task
from kdkit.training.answers import find_differences, summarize
from kdkit.training.task_data import Evaluator

pytestmark = pytest.mark.usefixtures("quick_runs")


class Rows:
    """Encoded examples, of which only the labels are read."""

    def __init__(self, targets):
        self.targets = targets

    def __len__(self):
        return len(self.targets)


def evaluator(task, targets):
    task = get_task(task) if isinstance(task, str) else task
    return Evaluator(task, Rows(targets))


def test_classes_have_a_confusion_matrix_and_a_chance_level():
    labels = np.array([0, 1, 1, 1])
    logits = np.array([[2.0, 0], [2, 0], [0, 2], [0, 2]])
    found = summarize("student", evaluator("sst2", labels), logits, 9)
    assert found.confusion == ((1, 0), (1, 2))
    assert found.classes == ("negative", "positive")
    assert found.chance == {"accuracy": 0.75}
    assert found.constant == "always “positive”"
    assert (found.examples, found.train_examples) == (4, 9)


def test_many_classes_have_their_most_frequent_errors():
    names = tuple(f"class {number}" for number in range(21))
    task = Task("many", SingleLabel(names), ("accuracy",), "accuracy", 1)
    labels = np.array([3, 3, 3, 5])
    answers = np.array([4, 4, 3, 6])
    found = summarize(
        "student", evaluator(task, labels), np.eye(21)[answers], 1
    )
    assert found.confusion is None
    assert [(one.label, one.answer, one.count) for one in found.confused] == [
        ("class 3", "class 4", 2),
        ("class 5", "class 6", 1),
    ]


def test_scores_come_with_the_mean_as_constant_answer():
    labels = np.array([1.0, 2.0, 6.0], "float32")
    logits = np.array([[1.5], [2.0], [5.0]])
    found = summarize("student", evaluator("stsb", labels), logits, 1)
    assert found.scores == ((1.0, 1.5), (2.0, 2.0), (6.0, 5.0))
    assert found.constant == "the mean score, 3"
    assert found.chance == {"pearson": 0.0, "spearman": 0.0}


def test_tags_are_counted_by_word_without_unknown_ones():
    task = Task("tags", Tagging(("O", "B-x")), ("span_f1",), "span_f1", 1)
    targets = [np.array([0, 1, 0]), np.array([UNKNOWN])]
    logits = np.eye(2)[[0, 1, 1, 0]]
    found = summarize("student", evaluator(task, targets), logits, 1)
    assert (found.confusion, found.unit) == (((1, 1), (0, 1)), "words")
    assert found.chance == {"span_f1": 0.0}


def test_differences_begin_where_both_are_most_confident():
    texts = [f"text {number}" for number in range(4)]
    rows = evaluator("sst2", np.array([0, 1, 1, 0]))
    teacher = np.array([[0.0, 1], [0, 9], [3, 0], [1, 0]])
    student = np.array([[1.0, 0], [5, 0], [4, 0], [2, 0]])
    found = find_differences(rows, Examples((texts,)), student, teacher)
    assert found["differing"] == 2
    first, second = found["differences"]
    assert (first.text, second.text) == (("text 1",), ("text 0",))
    assert (first.label, first.student, first.teacher) == (
        "positive",
        "negative",
        "positive",
    )
    assert first.student_share == pytest.approx(1 / (1 + np.exp(-5)))
