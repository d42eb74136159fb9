"""Logits of a model on encoded rows, and what they are worth."""

import dataclasses

import numpy as np
import tensorflow as tf

from kdkit.data import evaluation_batches
from kdkit.tasks import Task
from kdkit.tasks.agreement import agreement

BATCH_SIZE = 64
NUM_BUCKETS = 3  # few lengths, since each may be compiled once more


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates models on one split, and their agreement with a teacher.

    Args:
        task: `kdkit.tasks.Task`.
        encoded: `kdkit.data.EncodedExamples` of the split, with labels.
        split: string. Name of the split.
        teacher_logits: array of shape `(num_rows, num_classes)`, or `None`
            where there is no teacher.
    """

    task: Task
    encoded: object
    split: str = "dev"
    teacher_logits: np.ndarray | None = None

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event.

        Args:
            predict: callable from a dict batch to logits.
        """
        logits = predict_logits(predict, self.encoded)
        agrees = None
        if self.teacher_logits is not None:
            agrees = agreement(self.teacher_logits, logits)
        return {
            "split": self.split,
            "examples": len(self.encoded),
            "metrics": self.task.compute_metrics(self.encoded.labels, logits),
            "agreement": agrees,
        }


def make_forward(model):
    """Returns the model's forward pass in inference mode, compiled once.

    Args:
        model: `keras.Model`, a classifier.
    """
    return tf.function(
        lambda batch: model(batch, training=False), reduce_retracing=True
    )


def predict_logits(predict, encoded):
    """Runs a model over encoded rows.

    Args:
        predict: callable from a dict batch to logits.
        encoded: `kdkit.data.EncodedExamples`.

    Returns:
        NumPy array of shape `(num_rows, num_classes)`, in row order.
    """
    dataset, order = evaluation_batches(
        encoded, BATCH_SIZE, num_buckets=NUM_BUCKETS
    )
    parts = [
        np.asarray(predict(batch[0] if isinstance(batch, tuple) else batch))
        for batch in dataset
    ]
    logits = np.concatenate(parts)
    in_order = np.empty_like(logits)
    in_order[order] = logits
    return in_order
