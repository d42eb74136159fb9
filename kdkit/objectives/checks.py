"""What a distiller refuses after its constructor, before its first update."""

import keras

from kdkit.objectives.first_batch import check_label_values
from kdkit.objectives.first_batch import check_outputs
from kdkit.objectives.label_losses import check_label_loss
from kdkit.objectives.label_losses import warn_of_unused_loss
from kdkit.objectives.labels import check_labels
from kdkit.objectives.labels import single
from kdkit.taps import describe


class Checks:
    """The checks of a `Distiller` in `compile` and on its first batch."""

    _has_warned = False

    def compile(self, optimizer="rmsprop", loss=None, *args, **kwargs):
        """Configures training, as `keras.Model.compile` does.

        Args:
            optimizer, *args, **kwargs: as in `keras.Model.compile`.
            loss: the loss between labels and the student's logits, such as
                `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`,
                which counts `hard_label_weight` times. Defaults to `None`.

        Raises:
            UsageError: (a `ValueError`) if the loss takes probabilities, or is
                a softmax over a single logit.
        """
        if self.hard_label_weight:
            check_label_loss(loss, describe(self.student).num_classes)
        elif loss is not None and not self._has_warned:
            self._has_warned = True
            warn_of_unused_loss()
        super().compile(optimizer, loss, *args, **kwargs)

    def compile_from_config(self, config):
        # Keras does not compile a loaded model whose class has a `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def check_batch(self, data) -> None:
        """Refuses labels and outputs that would be misread.

        The first step of `fit` and `train_on_batch` calls it before any weight
        changes. Models whose graph does not show whether their output is
        logits, such as subclassed ones, are run once on the batch. Batches of a
        `tf.distribute` strategy with several replicas are not checked.

        Args:
            data: a batch, as in `keras.Model.train_step`.

        Raises:
            UsageError: (a `ValueError`) if labels are no classes of the student
                or outputs are probabilities: at least two rows without negative
                values, each of which sums to 1.
        """
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if self.hard_label_weight:
            check_labels(self.hard_label_weight, self.loss, y)
            check_label_values(
                single(self.loss),
                single(y),
                describe(self.student).num_classes,
            )
        losses = [
            objective.loss
            for objective in self.objectives
            if objective.tap == "logits"
        ]
        # Logits in chunks are of known models.
        if self.chunk_size is None and (losses or self.hard_label_weight):
            teachers = []
            if losses and self.teacher is not None:
                teachers = keras.tree.flatten(self.teacher)
            check_outputs(teachers, self.student, losses, x)
