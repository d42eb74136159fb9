"""What a task asks for: the head, the loss on labels, the metrics."""

import dataclasses
from typing import ClassVar

import keras
import numpy as np

from kdkit import data
from kdkit import models
from kdkit.errors import UsageError
from kdkit.tasks import metrics
from kdkit.tasks.agreement import agreement
from kdkit.tasks.baseline import Baseline
from kdkit.tasks.baseline import collapse
from kdkit.tasks.baseline import of_classes
from kdkit.tasks.baseline import of_scores


@dataclasses.dataclass(frozen=True)
class Kind:
    """What tasks of one kind have in common.

    A subclass says what its labels are like and how logits answer them.

    Args:
        class_names: tuple of strings in the order of the class numbers, or
            `None` where there are no classes, or where they stand in the data
            (see `Task.for_data`).

    Attributes:
        title: string. The kind in words.
        needs_class_names: bool. Whether it has classes with names.
        head_kind: string. What head a model gets, one of
            `kdkit.models.HEADS`.
        soft_label_loss: string. The distillation loss between logits that a
            recipe's soft labels become, or `None` where they stay.
        has_label_per_token: bool. Whether positions have labels, and sample
            weights say which.
        vocabulary: tuple of the word pieces that a model with random weights
            reads, or `None` where a checkpoint must bring them.
    """

    class_names: tuple[str, ...] | None = None
    title: ClassVar[str] = ""
    needs_class_names: ClassVar[bool] = True
    head_kind: ClassVar[str] = "sequence"
    soft_label_loss: ClassVar[str | None] = None
    has_label_per_token: ClassVar[bool] = False
    vocabulary: ClassVar[tuple[str, ...] | None] = None

    @property
    def num_classes(self) -> int:
        """Width of the logits.

        Raises:
            UsageError: if the classes stand in data that were not named.
        """
        if self.class_names is None:
            raise UsageError(
                f"The classes of this {self.title} stand in its data. Name "
                "them first: task.for_data(data_dir), or --data-dir DIR."
            )
        return len(self.class_names)

    @property
    def head(self) -> "models.Head":
        """The head that a model needs."""
        return models.Head(self.head_kind, self.num_classes, self.class_names)

    def for_layout(self, layout) -> "Kind":
        """Returns the kind with the classes of a layout that knows them."""
        return dataclasses.replace(self, class_names=layout.class_names)

    def label_loss(self) -> "keras.losses.Loss":
        """Returns the Keras loss between labels and logits."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def training_metrics(self) -> "list[keras.metrics.Metric]":
        """Returns what is measured while training, for learning curves."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def encode(self, examples, tokenizer, sequence_length):
        """Returns the rows as `kdkit.data.EncodedExamples`."""
        return data.encode(examples, tokenizer, sequence_length)

    def compute_metrics(self, names, labels, logits) -> dict[str, float]:
        """Returns the named metrics, see `Task.compute_metrics`."""
        labels = np.asarray(labels)
        logits = metrics.check_logits(logits, len(labels), self.num_classes)
        predictions = self.predict(logits)
        return {
            name: metrics.METRICS[name](labels, predictions) for name in names
        }

    def predict(self, logits):
        """Returns what logits say: class numbers, scores or sets."""
        return logits.argmax(axis=-1)

    def agreement(self, teacher_logits, student_logits) -> dict[str, float]:
        """Returns how closely a student's logits follow the teacher's."""
        return agreement(teacher_logits, student_logits)

    def baseline(self, targets, logits) -> Baseline:
        """Returns what logits are worth beside one answer for all rows.

        Args:
            targets: labels as `compute_metrics` takes them.
            logits: float array of shape `(num_labels, num_classes)`.
        """
        return of_classes(np.asarray(targets), self.predict(logits))

    def collapse(self, targets, logits) -> str | None:
        """Returns why a model has collapsed, `None` for one that has not.

        Args:
            targets, logits: as in `baseline`.
        """
        return collapse(self.baseline(targets, logits))


@dataclasses.dataclass(frozen=True)
class SingleLabel(Kind):
    """One of several classes for a sentence or a pair."""

    title: ClassVar[str] = "classification"


@dataclasses.dataclass(frozen=True)
class Regression(Kind):
    """A score for a sentence or a pair: one logit, which is the score."""

    title: ClassVar[str] = "regression"
    needs_class_names: ClassVar[bool] = False
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
        return of_scores(np.asarray(targets), self.predict(logits))
