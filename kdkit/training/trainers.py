"""What computes the steps of a stage: a `Distiller`, or labels alone."""

import keras
from keras import ops

from kdkit.distillation import label_count
from kdkit.distillation.distiller import Distiller
from kdkit.losses.base import safe_divide
from kdkit.models.architectures import padding_row
from kdkit.recipes.stages import Stage
from kdkit.steps import Step, sum_over_replicas
from kdkit.taps import select_inputs
from kdkit.training.optimizers import make_label_loss, make_optimizer
from kdkit.training.source import Source


def stage_distiller(
    stage: Stage, teachers, student, teacher_weights=None
) -> Distiller:
    """Returns the `Distiller` of a stage, which is not compiled."""
    return Distiller(
        teachers,
        student,
        stage.weighted_objectives(),
        hard_label_weight=stage.label_weight,
        teacher_weights=teacher_weights,
        chunk_size=stage.chunk_size,
    )


def make_trainer(arm, stage: Stage, source: Source, num_updates: int):
    """Returns a compiled `Distiller`, or a `LabelTrainer` without a teacher."""
    if stage.objectives:
        trainer = stage_distiller(
            stage, arm.teachers, arm.model, arm.teacher_weights
        )
    else:
        trainer = LabelTrainer(arm.model)
    optimizer = make_optimizer(
        stage,
        num_updates,
        fused=arm.training.jit_compile == "update",
        padding_row=padding_row(arm.model, source.pad_token_id),
    )
    trainer.compile(
        optimizer=optimizer,
        loss=make_label_loss(stage, source.label_loss),
        # Examples whose label does not count have weight 0.
        weighted_metrics=source.training_metrics() or None,
        jit_compile=arm.training.jit_compile is True,
    )
    # Keras' loss-scaling optimiser, around the stage's.
    trainer.optimizer.build(trainer.trainable_variables)
    return trainer


class LabelTrainer(Step, keras.Model):
    """Trains a model on labels, with the loss over the whole batch."""

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
        """Returns an empty list: there are no teachers."""
        return []

    def run_student(self, x, y, sample_weight, teachers_taps, training):
        """Returns this replica's share of the loss, and the logits."""
        y_pred = self(x, training=training)
        loss = self.compute_loss(x, y, y_pred, sample_weight, training)
        # Without examples, Keras returns losses of shape (0,).
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
