"""Kinds of tasks: their heads, label losses and metrics."""

import collections
import dataclasses
from typing import ClassVar

import numpy as np

from kdkit import data, models
from kdkit.data.encoding import (
    NO_LABEL,
    UNKNOWN,
    TokenExamples,
    as_given,
    encode_tokens,
    was_read,
)
from kdkit.data.multiple_choice import encode_questions
from kdkit.late import keras, scipy
from kdkit.tasks import metrics
from kdkit.tasks.baseline import (
    Baseline,
    collapse,
    compare_answers,
    compare_scores,
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Everything that tasks of one kind share.

    A subclass defines the labels and how logits are interpreted.

    Args:
        class_names: tuple of strings in the order of the class numbers, or
            `None` if there are no classes, or if the data define them (see
            `Task.for_data`).

    Attributes:
        title: string. The kind in words.
        head_kind: string. The kind of the model's head, one of
            `kdkit.models.HEADS`.
        soft_label_loss: string. The distillation loss between logits that
            replaces a recipe's soft labels, or `None` to use the recipe's.
        has_label_per_token: bool. Whether positions have labels, and sample
            weights mark them.
        output_function: string. The function from logits to probabilities,
            `"softmax"` or `"sigmoid"`, that `kdkit export` adds to LiteRT
            files, or `"logits"` for none.
        vocabulary: tuple of the word pieces for a model with random weights,
            or `None` if the vocabulary comes from a checkpoint.
        candidates: dict from a word to the numbers of its classes, or `None`
            if every word may have every class.
    """

    class_names: tuple[str, ...] | None = None
    title: ClassVar[str] = ""
    head_kind: ClassVar[str] = "sequence"
    soft_label_loss: ClassVar[str | None] = None
    has_label_per_token: ClassVar[bool] = False
    output_function: ClassVar[str] = "logits"
    vocabulary: ClassVar[tuple[str, ...] | None] = None
    candidates: ClassVar[dict[str, tuple[int, ...]] | None] = None

    @property
    def num_classes(self) -> int:
        """Width of the logits."""
        return len(self.class_names)

    @property
    def head(self) -> "models.Head":
        """The head that a model needs."""
        return models.Head(
            self.head_kind, self.num_classes, self.class_names, self.candidates
        )

    def for_layout(self, layout) -> "Kind":
        """Returns the kind with the values of its fields in a layout."""
        names = (field.name for field in dataclasses.fields(self))
        return type(self)(**{name: getattr(layout, name) for name in names})

    def label_loss(self) -> "keras.losses.Loss":
        """Returns the Keras loss between labels and logits."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def training_metrics(self) -> "list[keras.metrics.Metric]":
        """Returns the metrics during training, for learning curves."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def encode(self, examples, tokenizer, sequence_length):
        """Encodes examples as `kdkit.data.EncodedExamples`."""
        return data.encode(examples, tokenizer, sequence_length)

    def compute_metrics(self, names, labels, logits) -> dict[str, float]:
        """Computes the named metrics, see `Task.compute_metrics`."""
        logits = metrics.require_logits(logits, len(labels), self.num_classes)
        return metrics.compute(names, np.asarray(labels), self.predict(logits))

    def predict(self, logits):
        """Converts logits to class numbers, scores or sets."""
        return logits.argmax(axis=-1)

    def agreement(self, teacher_logits, student_logits) -> dict[str, float]:
        """Measures how closely a student's logits follow the teacher's."""
        return metrics.agreement(teacher_logits, student_logits)

    def baseline(self, targets, logits) -> Baseline:
        """Compares logits with the best constant answer.

        Args:
            targets: labels, as for `compute_metrics`.
            logits: float array of shape `(num_labels, num_classes)`.
        """
        return compare_answers(np.asarray(targets), self.predict(logits))

    def collapse(self, targets, logits) -> str | None:
        """Returns why a model has collapsed, `None` if it has not.

        Args:
            targets, logits: as in `baseline`.
        """
        return collapse(self.baseline(targets, logits))


@dataclasses.dataclass(frozen=True)
class SingleLabel(Kind):
    """One of several classes for a sentence or a pair."""

    title: ClassVar[str] = "classification"
    output_function: ClassVar[str] = "softmax"


@dataclasses.dataclass(frozen=True)
class Regression(Kind):
    """A score for a sentence or a pair: one logit, which is the score."""

    title: ClassVar[str] = "regression"
    soft_label_loss: ClassVar[str] = "logit_mse"

    @property
    def num_classes(self) -> int:
        return 1

    def label_loss(self):
        return keras.losses.MeanSquaredError()

    def training_metrics(self):
        return []

    def predict(self, logits):
        return logits[:, 0]

    def baseline(self, targets, logits):
        return compare_scores(np.asarray(targets), self.predict(logits))


@dataclasses.dataclass(frozen=True)
class MultiLabel(Kind):
    """Any number of classes per example: a sigmoid for each logit.

    Labels are 0 or 1, of shape `(num_rows, num_classes)`. A class is predicted
    if its probability is above one half.
    """

    title: ClassVar[str] = "multi-label"
    soft_label_loss: ClassVar[str] = "soft_binary_cross_entropy"
    output_function: ClassVar[str] = "sigmoid"

    def label_loss(self):
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def training_metrics(self):
        return []

    def predict(self, logits):
        return (logits > 0).astype("int32")

    def baseline(self, targets, logits):
        return compare_answers(
            np.asarray(targets),
            self.predict(logits),
            "share of right decisions",
        )

    def agreement(self, teacher_logits, student_logits):
        """Returns the share of equal decisions, and the KL divergence.

        Returns:
            Dict with `"same_decisions"`, the share of equal answers over
            examples and classes, and `"kl_divergence"`, the mean over examples
            of the sum over classes of the binary KL(teacher ‖ student) in nats.
        """
        sides = metrics.require_same_shape(teacher_logits, student_logits)
        same = np.equal(*(logits > 0 for logits in sides))
        yes_and_no = (np.hstack([logits, -logits]) for logits in sides)
        log_probs = map(scipy.special.log_expit, yes_and_no)
        return {
            "same_decisions": float(same.mean()),
            "kl_divergence": metrics.kl_divergence(*log_probs),
        }


@dataclasses.dataclass(frozen=True)
class MultipleChoice(Kind):
    """One of several options per question; each question has its own options.

    The model reads `[CLS] passage [SEP] question option [SEP]` for each option
    and returns one logit. The logits of a question form one row, so that losses
    and metrics are those of a classification among the options.
    """

    title: ClassVar[str] = "multiple choice"
    head_kind: ClassVar[str] = "multiple_choice"

    def encode(self, examples, tokenizer, sequence_length):
        return encode_questions(
            examples, tokenizer, sequence_length, self.num_classes
        )


UNKNOWN_TAG = "B-tag that is not known"  # never predicted
NO_ANSWER = -1  # for words that were truncated
OUTSIDE = "O"  # the tag of words outside of spans


@dataclasses.dataclass(frozen=True)
class Tagging(Kind):
    """A tag for each word; the tags mark spans."""

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
        logits = metrics.require_logits(logits, num_read, self.num_classes)
        ends = np.cumsum([len(row) for row in labels])[:-1]
        sides = (
            self._metric_inputs(np.split(side, ends))
            for side in self._labels_and_answers(labels, logits)
        )
        return metrics.compute(names, *sides)

    def _labels_and_answers(self, targets, logits):
        """Returns the labels of all words, and the answers, as arrays."""
        targets = np.concatenate(targets)
        answers = np.full(len(targets), NO_ANSWER)
        answers[was_read(targets)] = self.predict(logits)
        return as_given(targets), answers

    def _metric_inputs(self, rows):
        """Returns tags by their names, one list per sentence."""
        names = dict(enumerate(self.class_names)) | {
            NO_ANSWER: OUTSIDE,
            UNKNOWN: UNKNOWN_TAG,
        }
        return [[names[number] for number in row] for row in rows]

    def baseline(self, targets, logits):
        labels, answers = self._labels_and_answers(targets, logits)
        read = answers != NO_ANSWER
        if read.any():  # truncated words do not describe the model
            labels, answers = labels[read], answers[read]
        return compare_answers(labels, answers)


@dataclasses.dataclass(frozen=True)
class Polyphones(Tagging):
    """The reading of one character, among its readings in the training data.

    Args:
        class_names: as in `Kind`.
        vocabulary: tuple of strings or `None`. The characters in the training
            data.
        candidates: dict or `None`. From a character to the numbers of its
            readings.
    """

    candidates: dict[str, tuple[int, ...]] | None = None
    vocabulary: tuple[str, ...] | None = None
    title: ClassVar[str] = "polyphones"

    def collapse(self, targets, logits):
        """Returns `None`: a random model is right in half of the candidates."""
        return

    def _metric_inputs(self, rows):
        """Returns class numbers; an unknown reading's is never predicted."""
        return np.concatenate(rows)


def majority_accuracy(train: TokenExamples, examples: TokenExamples) -> float:
    """Returns the accuracy of each word's most frequent label in `train`.

    This is the baseline for polyphones, which ignores the sentence. Words that
    are not in `train` count as wrong.

    Args:
        train: `TokenExamples` to count labels in.
        examples: `TokenExamples` to answer.
    """
    counts = collections.defaultdict(collections.Counter)
    for word, label in _labelled(train):
        counts[word][label] += 1
    answers = [
        word in counts and counts[word].most_common(1)[0][0] == label
        for word, label in _labelled(examples)
    ]
    return float(np.mean(answers))


def _labelled(examples):
    """Yields each word that has a label, with its label."""
    for words, labels in zip(examples.words, examples.labels, strict=True):
        for position in np.flatnonzero(labels != NO_LABEL):
            yield words[position], int(labels[position])
