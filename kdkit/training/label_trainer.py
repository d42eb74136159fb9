"""Training on labels alone."""

import keras
from keras import ops

from kdkit.losses.base import safe_divide
from kdkit.objectives import label_count
from kdkit.objectives import sum_over_replicas
from kdkit.steps import Step
from kdkit.taps import select_inputs


class LabelTrainer(Step, keras.Model):
    """A model whose loss on the labels is that of the whole batch.

    It makes the steps of a `Distiller`, without a teacher.

    Keras' own training takes the mean of the replicas' means, in which the
    rows of a small share of a batch count for more, and which weights of rows
    or tokens change. What it logs of an epoch is the mean of the batches' means
    by their rows; here it is that over all labels.

    Args:
        student: `keras.Model` that is trained.
    """

    def __init__(self, student):
        super().__init__(dtype=student.dtype_policy)
        self.student = student
        self.built = True

    def call(self, inputs, training=None):
        """Returns the model's output."""
        return self.student(
            select_inputs(self.student, inputs), training=training
        )

    def run_teachers(self, x) -> list:
        """Returns nothing: there are no teachers."""
        return []

    def run_student(self, x, y, sample_weight, teachers_taps, training):
        """Returns this replica's share of the loss, and the logits.

        Args:
            x: the inputs of the model.
            y: the labels.
            sample_weight: the weights of the data, or `None`.
            teachers_taps: nothing, as `run_teachers` returns it.
            training: bool.
        """
        y_pred = self(x, training=training)
        loss = self.compute_loss(x, y, y_pred, sample_weight, training)
        # Of no rows at all, Keras gives losses of shape (0,).
        loss = ops.sum(ops.cast(loss, "float32"))
        count = label_count(self.loss, y, sample_weight)
        (total_count,) = sum_over_replicas([count])
        # Keras divides by the number of replicas.
        share = self.num_replicas * loss * safe_divide(count, total_count)
        (total,) = sum_over_replicas([share])
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(total, sample_weight=total_count)
        return share, y_pred
