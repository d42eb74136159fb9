"""What a stage trains on, and how what it makes is measured."""

import dataclasses
import math
from typing import Protocol

import keras

from kdkit.backends import tf
from kdkit.data import WHOLE
from kdkit.data import Shares
from kdkit.data import evaluation_batches
from kdkit.data import mixed_training_batches
from kdkit.data import training_batches
from kdkit.errors import RunError
from kdkit.recipes.stages import Stage
from kdkit.taps import Entry
from kdkit.teacher_cache import OutputsOfTeachers
from kdkit.training.task_data import BATCH_SIZE
from kdkit.training.task_data import NUM_BUCKETS
from kdkit.training.task_data import Evaluator
from kdkit.training.task_data import TrainingRows


class Material(Protocol):
    """The data of a stage: batches, the loss on labels, the dev metrics.

    Attributes:
        primary_metric: string. The metric that decides which epoch is best.
        larger_is_better: bool. Whether a larger one is.
        label_loss: Keras loss between labels and logits.
        training_metrics: list of Keras metrics of labels and logits, logged
            while training beside the losses.
        pad_token_id: int or `None`. The token that fills rows of a task to one
            length; `None` for running text.
    """

    primary_metric: str
    larger_is_better: bool
    label_loss: "keras.losses.Loss"
    training_metrics: "list[keras.metrics.Metric]"
    pad_token_id: int | None

    def labeled_only(self) -> "Material":
        """Returns it without the rows that only a teacher can use."""

    def training_batches(
        self,
        stage: Stage,
        seed: int,
        first_epoch: int,
        features=None,
        shares: Shares = WHOLE,
        first_step: int = 0,
    ):
        """Returns endless batches from an epoch on, and steps per epoch.

        They are as large as the stage says.

        The batches of an epoch are a function of `(seed, epoch)` alone.
        `features`, `shares` and `first_step` are as in
        `kdkit.data.training_batches`.
        """

    def validation_batches(
        self, stage: Stage, features=None, shares: Shares = WHOLE
    ):
        """Returns the batches of dev, for the losses of a stage on it."""

    def evaluate(self, predict, logs: dict) -> dict:
        """Returns the fields of an `"evaluation"` event.

        Args:
            predict: callable from a dict batch to logits.
            logs: dict of the losses of the epoch, those on
                `validation_batches` with `val_` before their names.
        """


@dataclasses.dataclass(frozen=True)
class TaskMaterial:
    """The rows of a task.

    Args:
        train: `TrainingRows`.
        evaluator: `Evaluator` on dev.
        num_buckets: int or `None`. Number of different batch lengths; `None`
            to pad every batch to the rows' `sequence_length`.
        unlabeled: `kdkit.data.EncodedExamples` without labels, or `None`.
        per_labeled: float. Unlabelled rows of an epoch for each labelled one.
        num_rows: int or `None`. Where no row is unlabelled, how many rows an
            epoch has, some of them several times; `None` for each once.
    """

    train: TrainingRows
    evaluator: Evaluator
    num_buckets: int | None
    unlabeled: object = None
    per_labeled: float = 1.0
    num_rows: int | None = None
    larger_is_better = True

    @property
    def primary_metric(self):
        return self.evaluator.task.primary_metric

    @property
    def label_loss(self):
        return self.evaluator.task.kind.label_loss()

    @property
    def training_metrics(self):
        return self.evaluator.task.kind.training_metrics()

    @property
    def pad_token_id(self):
        return self.train.encoded.pad_token_id

    def labeled_only(self):
        return dataclasses.replace(self, unlabeled=None)

    def training_batches(
        self,
        stage,
        seed,
        first_epoch,
        features=None,
        shares=WHOLE,
        first_step=0,
    ):
        settings = {
            "batch_size": stage.batch_size,
            "seed": seed,
            "first_epoch": first_epoch,
            "num_buckets": self.num_buckets,
            "rows_of_epoch": self.train.rows_of_epoch(seed, self.num_rows),
            "features": features,
            "shares": shares,
            "first_step": first_step,
        }
        if self.unlabeled is None:
            return training_batches(self.train.encoded, **settings)
        return mixed_training_batches(
            self.train.encoded, self.unlabeled, self.per_labeled, **settings
        )

    def validation_batches(self, stage, features=None, shares=WHOLE):
        batches, _ = evaluation_batches(
            self.evaluator.encoded,
            BATCH_SIZE,
            # Losses that count padding are those of training.
            num_buckets=self.num_buckets and NUM_BUCKETS,
            features=features or kept_logits(stage, self.evaluator),
            shares=shares,
        )
        return batches

    def evaluate(self, predict, logs):
        return self.evaluator(predict)


LOGITS = Entry("logits")


def kept_logits(stage, evaluator):
    """Returns what adds the teachers' logits to the batches of dev.

    So a teacher is not run over them in every epoch. Of other taps there is far
    more, for which there are teacher caches.

    Args:
        stage: `Stage`.
        evaluator: `Evaluator`.

    Returns:
        A callable as `kdkit.data.evaluation_batches` takes it; `None` where a
        stage reads more than logits, or the evaluator has none of every
        position that a loss may look at.
    """
    taps = {objective.tap for objective in stage.objectives}
    if (
        taps != {LOGITS.tap}
        or not evaluator.teachers_logits
        or evaluator.encoded.has_label_per_token
    ):
        return None
    outputs = OutputsOfTeachers(map(_Kept, evaluator.teachers_logits))
    return lambda encoded: outputs


class _Kept:
    """The logits of a teacher by row, as `OutputsOfTeachers` takes them."""

    def __init__(self, logits):
        self._logits = logits

    @property
    def signature(self):
        shape = (None, *self._logits.shape[1:])
        return {LOGITS.name: tf.TensorSpec(shape, self._logits.dtype)}

    def row_bytes(self, padded_length):
        del padded_length
        return self._logits[0].nbytes

    def __call__(self, rows, padded_length):
        del padded_length
        return {LOGITS.name: self._logits[rows]}


@dataclasses.dataclass(frozen=True)
class TokenSums:
    """Sums over the predicted tokens of a text.

    Args:
        loss: float. Of −log p(token), in nats.
        correct: float. Of the tokens that get the highest logit.
        total: float. Of all that are predicted.
    """

    loss: float
    correct: float
    total: float

    @property
    def accuracy(self) -> float:
        """The share of tokens that get the highest logit."""
        return self.correct / self.total

    def perplexity(self, count: float | None = None) -> float:
        """exp of the loss over a count, that of the tokens unless given."""
        if count is None:
            count = self.total
        return math.exp(min(self.loss / count, 700.0))


class TokenMaterial:
    """What materials share whose labels are tokens of the text itself."""

    primary_metric = "perplexity"
    larger_is_better = False
    training_metrics = ()
    pad_token_id = None

    @property
    def label_loss(self):
        # The mean over the tokens that count, however many a row has.
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def labeled_only(self):
        return self  # no row is without labels


def sum_over_tokens(predict, batches) -> TokenSums:
    """Sums up what a model says of the tokens that count.

    Args:
        predict: callable from a dict batch to logits of shape `(batch_size,
            length, vocabulary_size)`.
        batches: iterable of `(x, y, sample_weight)`: what `predict` takes,
            `int32` tokens and weights of shape `(batch_size, length)`.

    Raises:
        RunError: if the loss is not finite.
    """
    loss = correct = total = 0.0
    for x, labels, weights in batches:
        logits = tf.cast(predict(x), "float32")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        is_right = tf.argmax(logits, -1, "int32") == labels
        loss += float(tf.reduce_sum(weights * losses))
        correct += float(tf.reduce_sum(weights * tf.cast(is_right, "float32")))
        total += float(tf.reduce_sum(weights))
    if not math.isfinite(loss):
        raise RunError(
            "The loss on the held-out text is not finite: the model has "
            "diverged. Train it with a smaller learning_rate."
        )
    return TokenSums(loss, correct, total)
