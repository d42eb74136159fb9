"""What trains a model in a stage: a distiller, or what learns from labels."""

import keras
from keras import ops

from kdkit.distiller import Distiller
from kdkit.losses.base import safe_divide
from kdkit.models import padding_row
from kdkit.objectives import label_count
from kdkit.objectives import sum_over_replicas
from kdkit.steps import Step
from kdkit.taps import select_inputs
from kdkit.training.compiling import UPDATE
from kdkit.training.material import Material
from kdkit.training.stages import Stage


def make_trainer(arm, stage: Stage, material: Material, num_updates: int):
    """Returns a compiled `Distiller`, or what trains on labels alone.

    Args:
        arm: `Arm`. Its model is trained.
        stage: `Stage`.
        material: `Material` that the stage trains on.
        num_updates: int. Updates of the stage, for its learning rates.
    """
    if stage.objectives:
        trainer = Distiller(
            arm.teacher,
            arm.model,
            stage.build_objectives(),
            hard_label_weight=stage.label_weight,
            teacher_weights=arm.teacher_weights,
            chunk_size=stage.chunk_size,
        )
        # The run has examined its data and models.
        trainer.has_checked_data = True
    else:
        trainer = LabelTrainer(arm.model)
    optimizer = stage.make_optimizer(
        num_updates,
        fused=arm.jit_compile == UPDATE,
        padding_row=padding_row(arm.model, material.pad_token_id),
    )
    trainer.compile(
        optimizer=optimizer,
        loss=stage.make_label_loss(material.label_loss),
        # Rows whose label does not count have weight 0.
        weighted_metrics=material.training_metrics or None,
        jit_compile=arm.jit_compile is True,
    )
    # Keras' own, around the stage's where losses are scaled.
    trainer.optimizer.build(trainer.trainable_variables)
    return trainer


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
