"""Training on labels alone, on several devices."""

import keras
from keras import ops

from kdkit.backends import tf
from kdkit.losses.base import safe_divide
from kdkit.objectives import label_count
from kdkit.objectives import sum_over_replicas
from kdkit.taps import select_inputs


class LabelTrainer(keras.Model):
    """A model whose loss on the labels is that of the whole batch.

    Keras' own training takes the mean of the replicas' means, in which the
    rows of a small share of a batch count for more, and which weights of rows
    or tokens change.

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

    def train_step(self, data):
        """One update of the model."""
        with tf.GradientTape() as tape:
            loss, outputs = self._run(data, training=True)
            scaled_loss = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        gradients = tape.gradient(scaled_loss, variables)
        self.optimizer.apply_gradients(
            [
                (gradient, variable)
                for gradient, variable in zip(gradients, variables, strict=True)
                if gradient is not None
            ]
        )
        return self.compute_metrics(*outputs)

    def test_step(self, data):
        """The loss in inference mode, and the compiled metrics."""
        _, outputs = self._run(data, training=False)
        return self.compute_metrics(*outputs)

    def _run(self, data, training):
        """Returns this replica's share of the loss, and what metrics take."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=training)
        loss = self.compute_loss(x, y, y_pred, sample_weight, training)
        # Of no rows at all, Keras gives losses of shape (0,).
        loss = ops.sum(ops.cast(loss, "float32"))
        count = label_count(self.loss, y, sample_weight)
        (total_count,) = sum_over_replicas([count])
        # Keras divides by the number of replicas.
        replicas = self.distribute_strategy.num_replicas_in_sync
        share = replicas * loss * safe_divide(count, total_count)
        (total,) = sum_over_replicas([share])
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(total, sample_weight=ops.shape(y)[0])
        return share, (x, y, y_pred, sample_weight)
