"""Token classification: a label for each word, or for one of them."""

import collections
import dataclasses
from typing import ClassVar

import keras
import numpy as np

from kdkit import models
from kdkit.data.tokens import NO_LABEL
from kdkit.data.tokens import UNKNOWN
from kdkit.data.tokens import TokenExamples
from kdkit.data.tokens import as_given
from kdkit.data.tokens import encode_tokens
from kdkit.data.tokens import was_read
from kdkit.errors import UsageError
from kdkit.tasks import metrics
from kdkit.tasks.baseline import of_classes
from kdkit.tasks.kinds import Kind

UNKNOWN_TAG = "B-tag that is not known"  # which no answer is
NO_ANSWER = -1  # to words that were cut off: the label of none
OUTSIDE = "O"  # the tag of words outside of spans


@dataclasses.dataclass(frozen=True)
class Tagging(Kind):
    """A tag for each word, which mark spans together."""

    title: ClassVar[str] = "tagging"
    head_kind: ClassVar[str] = "tokens"
    has_label_per_token: ClassVar[bool] = True

    def label_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def encode(self, examples, tokenizer, sequence_length):
        return encode_tokens(examples, tokenizer, sequence_length)

    def compute_metrics(self, names, labels, logits):
        num_read = sum(int(was_read(row).sum()) for row in labels)
        logits = metrics.check_logits(logits, num_read, self.num_classes)
        ends = np.cumsum([len(row) for row in labels])[:-1]
        labels, predictions = (
            self._as_metrics_take_them(np.split(side, ends))
            for side in self._labels_and_answers(labels, logits)
        )
        return {
            name: metrics.METRICS[name](labels, predictions) for name in names
        }

    def _labels_and_answers(self, targets, logits):
        """Labels of all words, and what is said of them; both in one array."""
        targets = np.concatenate(targets)
        answers = np.full(len(targets), NO_ANSWER)
        answers[was_read(targets)] = self.predict(logits)
        return as_given(targets), answers

    def _as_metrics_take_them(self, rows):
        """Tags by their names, one list per sentence."""
        names = dict(enumerate(self.class_names)) | {
            NO_ANSWER: OUTSIDE,
            UNKNOWN: UNKNOWN_TAG,
        }
        return [[names[number] for number in row] for row in rows]

    def baseline(self, targets, logits):
        labels, answers = self._labels_and_answers(targets, logits)
        read = answers != NO_ANSWER
        if read.any():  # words that were cut off tell nothing of the model
            labels, answers = labels[read], answers[read]
        return of_classes(labels, answers)


@dataclasses.dataclass(frozen=True)
class Polyphones(Tagging):
    """The reading of one character, among those it has in the training data.

    Args:
        class_names: as in `Kind`.
        vocabulary: tuple of strings or `None`. The characters of the training
            data.
        candidates: dict or `None`. From a character to the numbers of its
            readings.
    """

    candidates: dict[str, tuple[int, ...]] | None = None
    vocabulary: tuple[str, ...] | None = None
    title: ClassVar[str] = "polyphones"

    @property
    def head(self):
        return models.Head(
            self.head_kind, self.num_classes, self.class_names, self.candidates
        )

    def for_layout(self, layout):
        return dataclasses.replace(
            self,
            class_names=layout.class_names,
            candidates=layout.candidates,
            vocabulary=layout.vocabulary,
        )

    def collapse(self, targets, logits):
        """`None`: by its candidates a random model is right in half of them.

        `kdkit.doctor.teacher_accuracy` compares with each character's usual
        reading, which takes the training data.
        """
        return

    def _as_metrics_take_them(self, rows):
        """Class numbers; that of an unknown reading is never predicted."""
        return np.concatenate(rows)


def majority_accuracy(train: TokenExamples, examples: TokenExamples) -> float:
    """Returns the accuracy of each word's most frequent label in `train`.

    The baseline of polyphones: no sentence is read. Words that are not in
    `train` count as wrong.

    Args:
        train: `TokenExamples` whose labels are counted.
        examples: `TokenExamples` that are answered.

    Raises:
        UsageError: if there is nothing to answer.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, label in _labelled(train):
        counts[word][label] += 1
    answers = [
        word in counts and counts[word].most_common(1)[0][0] == label
        for word, label in _labelled(examples)
    ]
    if not answers:
        raise UsageError(
            "The baseline needs words with labels. Received: none in "
            f"{len(examples)} sentences."
        )
    return float(np.mean(answers))


def _labelled(examples):
    """Each word that has a label, and the label."""
    for words, labels in zip(examples.words, examples.labels, strict=True):
        for position in np.flatnonzero(labels != NO_LABEL):
            yield words[position], int(labels[position])
