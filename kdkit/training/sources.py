"""Data sources: the training data of a stage, and the measurement of models.

A source has examples, their batching, a loss on the labels and metrics.
`BatchStream` does everything else, in the same way for all sources. A new
source is a class here, and a row of tests/unit/test_sources.py.
"""

import abc
import dataclasses
import functools
import math

import keras

from kdkit.data import (
    WHOLE,
    BatchStream,
    Buckets,
    EncodedExamples,
    FullBatches,
    SequenceDataset,
    Shares,
    TokenBatches,
    mix_unlabeled,
    repeated_rows,
)
from kdkit.errors import RunError
from kdkit.late import tf
from kdkit.recipes.stages import Stage
from kdkit.taps import Entry
from kdkit.teacher_cache.reading import OutputsOfTeachers
from kdkit.training.task_data import (
    BATCH_SIZE,
    NUM_BUCKETS,
    Evaluator,
    TrainingRows,
)


class DataSource(abc.ABC):
    """The data of a stage: examples, batches, the label loss, metrics."""

    train: SequenceDataset
    held_out: SequenceDataset
    primary_metric: str
    larger_is_better: bool
    label_loss: "keras.losses.Loss | None"
    training_metrics = ()
    pad_token_id: int | None = None

    def labeled_only(self) -> "DataSource":
        """Returns the source without examples that only a teacher labels."""
        return self

    @abc.abstractmethod
    def batching(self, stage: Stage):
        """Returns the `batching` of the `BatchStream` to train on."""

    @property
    @abc.abstractmethod
    def held_out_batching(self):
        """Returns the `batching` of the `BatchStream` to measure on."""

    def training_stream(
        self, stage: Stage, seed: int, features=None, shares: Shares = WHOLE
    ) -> BatchStream:
        """Returns the batches that a stage trains on."""
        return BatchStream(
            self.train,
            self.batching(stage),
            seed,
            features and features(self.train),
            shares,
            stage.gradient_accumulation_steps,
        )

    def validation_stream(
        self, stage: Stage, features=None, shares: Shares = WHOLE
    ) -> BatchStream:
        """Returns the batches that the losses of a stage are measured on."""
        return BatchStream(
            self.held_out,
            self.held_out_batching,
            features=features and features(self.held_out),
            shares=shares,
        )

    @abc.abstractmethod
    def evaluate(self, predict, logs: dict) -> dict:
        """Returns the fields of an `"evaluation"` event."""


@dataclasses.dataclass(frozen=True)
class TaskSource(DataSource):
    """Examples of a task: labelled, augmented and unlabelled."""

    labeled: TrainingRows
    evaluator: Evaluator
    num_buckets: int | None
    unlabeled: EncodedExamples | None = None
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
        return self.labeled.encoded.pad_token_id

    @functools.cached_property
    def _train(self):
        """All examples, and the `rows_of_epoch` of `Buckets`."""
        examples, rows = self.labeled.encoded, self.labeled.rows_of_epoch
        if self.num_rows is not None:
            rows = repeated_rows(len(examples), self.num_rows, rows)
        if self.unlabeled is None:
            return examples, rows
        return mix_unlabeled(examples, self.unlabeled, self.per_labeled, rows)

    @property
    def train(self):
        return self._train[0]

    @property
    def held_out(self):
        return self.evaluator.encoded

    def labeled_only(self):
        return dataclasses.replace(self, unlabeled=None)

    def batching(self, stage):
        return Buckets(stage.batch_size, self.num_buckets, self._train[1])

    @property
    def held_out_batching(self):
        # Only losses of training count padding.
        return Buckets(BATCH_SIZE, self.num_buckets and NUM_BUCKETS)

    def validation_stream(self, stage, features=None, shares=WHOLE):
        features = features or cached_dev_logits(stage, self.evaluator)
        return super().validation_stream(stage, features, shares)

    def evaluate(self, predict, logs):
        return self.evaluator(predict)


LOGITS = Entry("logits")


def cached_dev_logits(stage: Stage, evaluator: Evaluator):
    """Returns a function for adding the teachers' logits to dev's batches."""
    taps = {objective.tap for objective in stage.objectives}
    if (
        taps != {LOGITS.tap}
        or not evaluator.teachers_logits
        or evaluator.encoded.has_label_per_token
    ):
        return None
    outputs = OutputsOfTeachers(map(_CachedLogits, evaluator.teachers_logits))
    return lambda examples: outputs


class _CachedLogits:
    """A teacher's logits by example, as `OutputsOfTeachers` takes them."""

    def __init__(self, logits):
        self._logits = logits

    def __call__(self, rows, padded_length):
        del padded_length
        return {LOGITS.name: self._logits[rows]}


@dataclasses.dataclass(frozen=True)
class TextSource(DataSource):
    """Text, whose own tokens are the labels."""

    train: SequenceDataset | None
    held_out: SequenceDataset
    primary_metric = "perplexity"
    larger_is_better = False
    accuracy = "token_accuracy"  # the name of that metric
    num_words = None  # in the held-out text, if they were counted

    @property
    def label_loss(self):
        # The mean over the tokens that count, in all sequences together.
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def batching(self, stage):
        return FullBatches(stage.batch_size)

    @property
    def held_out_batching(self):
        return FullBatches(
            16
        )  # small, because logits have the vocabulary's size

    @functools.cached_property
    def held_out_batches(self) -> "tf.data.Dataset":
        """Returns all examples to measure on, always in the same batches."""
        return BatchStream(self.held_out, self.held_out_batching).evaluation()

    def measure(self, predict) -> dict:
        """Returns the metrics of a model, as `token_metrics` does."""
        return token_metrics(
            predict, self.held_out_batches, self.accuracy, self.num_words
        )

    def evaluate(self, predict, logs):
        return self._evaluation(self.measure(predict))

    def _evaluation(self, metrics):
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": metrics,
            "agreement": None,
        }


class MaskedSource(TextSource):
    """Packed text with masks that differ in every epoch (`MaskedRows`)."""

    accuracy = "masked_accuracy"


class PlainTextSource(TextSource):
    """Packed text without masks (`PackedRows`), to compare encoders."""

    primary_metric = "loss"
    label_loss = None

    def evaluate(self, predict, logs):
        return self._evaluation(
            {
                name.removeprefix("val_"): float(value)
                for name, value in logs.items()
                if name.startswith("val_")
            }
        )


# The largest number of logits in memory during an evaluation, over batch,
# positions and vocabulary: 256 MB.
LOGITS_AT_ONCE = 2**26


@dataclasses.dataclass(frozen=True)
class NextTokenSource(TextSource):
    """Packed text whose tokens are predicted from the tokens before them."""

    vocabulary_size: int
    num_words: int | None = None
    accuracy = "next_token_accuracy"

    @property
    def held_out_batching(self):
        per_row = self.held_out.sequence_length * self.vocabulary_size
        return FullBatches(max(1, min(16, LOGITS_AT_ONCE // per_row)))


class SentenceSource(TextSource):
    """Sentences with hidden spans (`SpanRows`) or pairs (`PairRows`)."""

    def batching(self, stage):
        return TokenBatches(stage.batch_tokens)

    @property
    def held_out_batching(self):
        return TokenBatches(
            2048
        )  # small, because logits have the vocabulary's size


def token_metrics(
    predict,
    batches,
    accuracy: str = "token_accuracy",
    num_words: int | None = None,
) -> dict:
    """Returns a model's perplexity and accuracy on the tokens that count."""
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
            "diverged."
        )
    metrics = {
        "perplexity": math.exp(min(loss / total, 700.0)),
        accuracy: correct / total,
    }
    if num_words:
        metrics["word_perplexity"] = math.exp(min(loss / num_words, 700.0))
    return metrics
