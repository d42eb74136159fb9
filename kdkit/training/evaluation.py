"""Logits of a model on encoded rows, and what they are worth."""

import dataclasses
import functools

import numpy as np

from kdkit.data import evaluation_batches
from kdkit.data import for_any_shape
from kdkit.taps import select_inputs
from kdkit.tasks import Task

BATCH_SIZE = 64
NUM_BUCKETS = 3  # few lengths, since each may be compiled once more


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates models on one split, and their agreement with a teacher.

    Args:
        task: `kdkit.tasks.Task`.
        encoded: `kdkit.data.EncodedExamples` of the split, with labels.
        split: string. Name of the split.
        teachers_logits: tuple of arrays as `predict_logits` returns them, one
            per teacher; the first is agreed with. Defaults to `()`.
    """

    task: Task
    encoded: object
    split: str = "dev"
    teachers_logits: tuple[np.ndarray, ...] = ()

    @functools.cached_property
    def _batches(self):
        # Once, not in each epoch: TensorFlow keeps each data set of Python's
        # rows until the process ends.
        return _in_few_lengths(self.encoded)

    def __call__(self, predict) -> dict:
        """Returns the fields of an `"evaluation"` event.

        Args:
            predict: callable from a dict batch to logits.
        """
        logits = predict_logits(predict, self.encoded, self._batches)
        agrees = None
        if self.teachers_logits:
            agrees = self.task.kind.agreement(self.teachers_logits[0], logits)
        return {
            "split": self.split,
            "examples": len(self.encoded),
            "metrics": self.task.compute_metrics(self.encoded.targets, logits),
            "agreement": agrees,
            "collapsed": self.task.kind.collapse(self.encoded.targets, logits),
        }


def make_forward(model):
    """Returns the model's forward pass in inference mode, compiled once.

    Args:
        model: `keras.Model`, a classifier.
    """
    return for_any_shape(
        lambda batch: model(select_inputs(model, batch), training=False)
    )


def _in_few_lengths(encoded):
    return evaluation_batches(encoded, BATCH_SIZE, num_buckets=NUM_BUCKETS)


def predict_logits(predict, encoded, batches=None):
    """Runs a model over encoded rows.

    Args:
        predict: callable from a dict batch to logits.
        encoded: `kdkit.data.EncodedExamples`.
        batches: what `kdkit.data.evaluation_batches` makes of them, `None` to
            make it. Defaults to `None`.

    Returns:
        NumPy array of shape `(num_rows, num_classes)`, in row order; where
        positions have labels, `(num_labels, num_classes)`.
    """
    dataset, order = batches or _in_few_lengths(encoded)
    by_row = {}
    for batch in dataset:
        inputs = batch[0] if isinstance(batch, tuple) else batch
        num_rows = len(inputs["token_ids"]) // encoded.sequences_per_row
        rows = order[len(by_row) : len(by_row) + num_rows]
        answers = encoded.answers(np.asarray(predict(inputs)), rows)
        by_row.update(zip(rows, answers, strict=True))
    return np.concatenate([by_row[row] for row in range(len(encoded))])
