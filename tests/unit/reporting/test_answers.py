"""kdkit.runs.answers: summaries of a model's answers for its report."""

import types

import numpy as np
import pytest

from kdkit import tasks
from kdkit.data import Examples
from kdkit.runs.answers import find_differences, summarize

UNKNOWN = -2  # a tag that the training file does not have


def evaluator(task, targets):
    task = tasks.get_task(task) if isinstance(task, str) else task
    encoded = type("Rows", (list,), {"targets": targets})(targets)
    return types.SimpleNamespace(task=task, encoded=encoded)


def task_of(kind, metric):
    return tasks.Task("own", kind, (metric,), metric, 1)


def test_classes_have_a_confusion_matrix_and_a_chance_level():
    labels = np.array([0, 1, 1, 1])
    logits = np.eye(2)[[0, 0, 1, 1]]
    found = summarize("student", evaluator("sst2", labels), logits)
    assert found.confusion == [[1, 0], [1, 2]]
    assert found.classes == ("negative", "positive")
    assert found.chance == {"accuracy": 0.75}
    assert found.constant == "always “positive”"
    assert found.examples == 4


def test_many_classes_have_their_most_frequent_errors():
    names = tuple(f"class {number}" for number in range(21))
    task = task_of(tasks.SingleLabel(names), "accuracy")
    rows = evaluator(task, np.array([3, 3, 3, 5]))
    found = summarize("student", rows, np.eye(21)[[4, 4, 3, 6]])
    assert found.confusion is None
    assert [(one.label, one.answer, one.count) for one in found.confused] == [
        ("class 3", "class 4", 2),
        ("class 5", "class 6", 1),
    ]


def test_scores_come_with_the_mean_as_constant_answer():
    rows = evaluator("stsb", np.array([1.0, 2.0, 6.0], "float32"))
    found = summarize("student", rows, np.array([[1.5], [2.0], [5.0]]))
    assert found.scores == [[1.0, 1.5], [2.0, 2.0], [6.0, 5.0]]
    assert found.constant == "the mean score, 3"
    assert found.chance == {"pearson": 0.0, "spearman": 0.0}


def test_tags_are_counted_by_word_without_unknown_ones():
    task = task_of(tasks.Tagging(("O", "B-x")), "span_f1")
    targets = [np.array([0, 1, 0]), np.array([UNKNOWN])]
    rows = evaluator(task, targets)
    found = summarize("student", rows, np.eye(2)[[0, 1, 1, 0]])
    assert (found.confusion, found.unit) == ([[1, 1], [0, 1]], "words")
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
    answers = first.label, first.student, first.teacher
    assert answers == ("positive", "negative", "positive")
    assert first.student_share == pytest.approx(1 / (1 + np.exp(-5)))
