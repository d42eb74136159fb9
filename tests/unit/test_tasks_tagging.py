"""Metrics of tags and of polyphones."""

import keras_hub
import numpy as np
import pytest
from kit.tasks import VOCABULARY

from kdkit.data import TokenExamples, encode_tokens
from kdkit.data.encoding import CUT_OFF, NO_LABEL, UNKNOWN, was_read
from kdkit.tasks import Polyphones, Tagging

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SPANS = ("span_f1", "span_precision", "span_recall")


@pytest.fixture(scope="module")
def pieces():
    """A tokenizer of which each word is one piece."""
    return keras_hub.tokenizers.BertTokenizer(VOCABULARY, lowercase=False)


def spans_of(tags):
    """Kind, start and end of each span, by walking over IOB2 tags."""
    found, start = set(), None
    for position, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            found.add((tags[start][2:], start, position))
            start = None
        if tag.startswith("B-"):
            start = position
    return found


def logits_of(rows):
    """Logits that are highest for the given classes."""
    return np.concatenate([np.eye(len(TAGS))[row] for row in rows])


def test_span_metrics_count_whole_spans():
    gold = [[1, 2, 0, 3], [0, 1, 0, 3, 4], [3, 0]]
    predicted = [[1, 2, 0, 1], [0, 1, 2, 3, 4], [3, 0]]
    hits = wanted = found = 0
    for row, answers in zip(gold, predicted, strict=True):
        true, given = (
            spans_of([TAGS[number] for number in numbers])
            for numbers in (row, answers)
        )
        hits += len(true & given)
        wanted += len(true)
        found += len(given)
    assert 0 < hits < wanted
    metrics = Tagging(TAGS).compute_metrics(
        SPANS, [np.array(row) for row in gold], logits_of(predicted)
    )
    assert metrics == {
        "span_f1": pytest.approx(2 * hits / (wanted + found)),
        "span_precision": pytest.approx(hits / found),
        "span_recall": pytest.approx(hits / wanted),
    }


def test_span_metrics_without_any_span_are_zero():
    labels = [np.array([0, 0])]
    metrics = Tagging(TAGS).compute_metrics(SPANS, labels, logits_of([[0, 0]]))
    assert set(metrics.values()) == {0.0}


def test_spans_that_were_cut_off_are_missed(pieces):
    rows = TokenExamples(
        [("ab", "cd", "ef", "gh", "ij")], [np.array([1, 2, 0, 3, 4], "int32")]
    )
    recalls = []
    for length in (16, 6, 5, 3):
        encoded = encode_tokens(rows, pieces, length)
        right = np.eye(len(TAGS))[encoded.labels[encoded.labels != NO_LABEL]]
        measured = Tagging(TAGS).compute_metrics(SPANS, encoded.targets, right)
        recalls.append(measured["span_recall"])
    assert recalls == [1.0, 0.5, 0.5, 0.0]  # at 6 and 3 a span loses its end


def test_other_labels_that_were_cut_off_count_as_wrong(pieces):
    labels = [np.array([0, 1, 0, 0], "int32")]
    rows = TokenExamples([("ab", "cd", "ef", "gh")], labels)
    readings = Polyphones(("le5", "liao3"))
    for length, accuracy in ((16, 0.75), (4, 0.25)):
        targets = encode_tokens(rows, pieces, length).targets
        logits = np.array([[1.0, 0.0]] * was_read(targets[0]).sum())
        measured = readings.compute_metrics(("accuracy",), targets, logits)
        assert measured == {"accuracy": accuracy}


@pytest.mark.parametrize("kind", [Tagging, Polyphones])
def test_the_baseline_is_of_the_words_that_were_read(kind, pieces):
    """Those that were cut off are not the model's mistakes."""
    labels = [np.array([0, 1, 0, 0], "int32")]
    rows = TokenExamples([("ab", "cd", "ef", "gh")], labels)
    for length, num_read in ((16, 4), (5, 3), (4, 2)):
        encoded = encode_tokens(rows, pieces, length)
        right = np.eye(2)[encoded.labels[encoded.labels != NO_LABEL]]
        baseline = kind(("O", "B-PER")).baseline(encoded.targets, right)
        constant = np.mean(labels[0][:num_read] == 0)
        assert (baseline.model, baseline.constant) == (1.0, constant)
        assert baseline.num_answers == num_read
    nothing = kind(("O", "B-PER")).baseline(
        [CUT_OFF - labels[0]], np.zeros((0, 2))
    )
    assert nothing.model == 0.0


def test_unknown_tags_are_missed_spans():
    """Not the tag that stands so far from the end of their names."""
    labels = [np.array([UNKNOWN, 0, 1])]
    metrics = Tagging(TAGS).compute_metrics(
        SPANS, labels, logits_of([[len(TAGS) + UNKNOWN, 0, 1]])
    )
    assert metrics["span_precision"] == metrics["span_recall"] == 0.5


def test_unknown_readings_count_as_wrong():
    labels = [np.array([0]), np.array([-2]), np.array([1])]
    metrics = Polyphones(("le5", "liao3")).compute_metrics(
        ("accuracy",), labels, np.array([[1.0, 0.0]] * 3)
    )
    assert metrics == {"accuracy": pytest.approx(1 / 3)}
