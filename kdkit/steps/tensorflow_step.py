"""The training step on TensorFlow, where replicas share a batch."""

import keras
import tensorflow as tf

from kdkit.backends import whole
from kdkit.errors import UsageError
from kdkit.steps.evaluation import EvaluationStep
from kdkit.weights import note_gradients

OWN = ("keras", "kdkit")


class Step(EvaluationStep):
    """The training step of a `Distiller` or `LabelTrainer` on TensorFlow."""

    @property
    def num_replicas(self) -> int:
        """The number of replicas that share a batch."""
        return self.distribute_strategy.num_replicas_in_sync

    def make_train_function(self, force=False):
        """Builds the optimizer, then compiles the step as Keras does.

        Keras would build it on the variables that have gradients in the first
        step. A model loaded from a file has slots for all variables.
        """
        if not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def train_step(self, data):
        """Runs one update: each model forward once, the student backward."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        teachers_taps = self.run_teachers(x)
        with tf.GradientTape() as tape:
            loss, y_pred = self.run_student(
                x, y, sample_weight, teachers_taps, training=True
            )
            scaled_loss = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        gradients = tape.gradient(scaled_loss, variables)
        note_gradients(
            variables, [gradient is not None for gradient in gradients]
        )
        # Without a gradient, as for the head in an intermediate stage, a weight
        # does not change, not even by weight decay.
        trained = [
            (whole(gradient), variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None
        ]
        self._apply(clipped(trained, self.optimizer, self.num_replicas))
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _apply(self, trained):
        """Updates weights with their gradients."""
        scales = isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)
        may_leave = _is_known(self.optimizer) and not scales
        if tf.distribute.has_strategy() or not may_leave:
            self.optimizer.apply_gradients(trained)
        else:
            tf.distribute.get_replica_context().merge_call(
                lambda strategy: self.optimizer.apply_gradients(trained)
            )


def _is_known(optimizer):
    """Whether an optimizer's updates, from Keras or kdkit, need no replica."""
    return all(
        getattr(type(optimizer), name).__module__.partition(".")[0] in OWN
        for name in ("apply", "apply_gradients")
    )


def clipped(trained: list, optimizer, num_replicas: int) -> list:
    """Clips gradients over all replicas, if the optimizer clips."""
    if num_replicas == 1:
        return trained
    scaled = getattr(optimizer, "inner_optimizer", None)
    if scaled is not None and any(_clipping(scaled)):
        raise UsageError(
            f"Gradients of {num_replicas} replicas cannot be clipped in "
            "float16, where each scales its own. Use bfloat16."
        )
    norm, value, global_norm = _clipping(optimizer)
    if not (norm or value or global_norm):
        return trained
    gradients, variables = zip(*trained, strict=True)
    if hasattr(optimizer, "without_untrained"):  # before norms are computed
        gradients = optimizer.without_untrained(gradients, variables)
    gradients = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, list(gradients)
    )
    if global_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, global_norm)
    elif norm:
        gradients = [tf.clip_by_norm(one, norm) for one in gradients]
    else:
        gradients = [tf.clip_by_value(one, -value, value) for one in gradients]
    return [
        (gradient / num_replicas, variable)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _clipping(optimizer):
    return optimizer.clipnorm, optimizer.clipvalue, optimizer.global_clipnorm
