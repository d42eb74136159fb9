"""What a stage trains on, and how what it makes is measured."""

import dataclasses
from typing import Protocol

import keras

from kdkit.data import evaluation_batches
from kdkit.data import training_batches
from kdkit.training.evaluation import BATCH_SIZE
from kdkit.training.evaluation import NUM_BUCKETS
from kdkit.training.evaluation import Evaluator


class Material(Protocol):
    """The data of a stage: batches, the loss on labels, the dev metrics.

    Attributes:
        primary_metric: string. The metric that decides which epoch is best.
        larger_is_better: bool. Whether a larger one is.
        label_loss: Keras loss between labels and logits.
    """

    primary_metric: str
    larger_is_better: bool
    label_loss: keras.losses.Loss

    def training_batches(self, batch_size: int, seed: int, first_epoch: int):
        """Returns endless batches from an epoch on, and steps per epoch.

        The batches of an epoch are a function of `(seed, epoch)` alone.
        """

    def validation_batches(self):
        """Returns the batches of dev, for the losses on it."""

    def evaluate(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event.

        Args:
            predict: callable from a dict batch to logits.
        """


@dataclasses.dataclass(frozen=True)
class TaskMaterial:
    """The labelled rows of a task.

    Args:
        train: `kdkit.data.EncodedExamples`.
        evaluator: `Evaluator` on dev.
        num_buckets: int. Number of different batch lengths.
    """

    train: object
    evaluator: Evaluator
    num_buckets: int
    larger_is_better = True

    @property
    def primary_metric(self):
        return self.evaluator.task.primary_metric

    @property
    def label_loss(self):
        return self.evaluator.task.kind.label_loss()

    def training_batches(self, batch_size, seed, first_epoch):
        return training_batches(
            self.train,
            batch_size,
            seed=seed,
            first_epoch=first_epoch,
            num_buckets=self.num_buckets,
        )

    def validation_batches(self):
        batches, _ = evaluation_batches(
            self.evaluator.encoded, BATCH_SIZE, num_buckets=NUM_BUCKETS
        )
        return batches

    def evaluate(self, predict):
        return self.evaluator(predict)
