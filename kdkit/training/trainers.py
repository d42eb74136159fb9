"""What computes a stage's steps, and the loop that runs them."""

import keras
from keras import ops

from kdkit.distillation import label_count
from kdkit.distillation.distiller import Distiller
from kdkit.late import tf
from kdkit.losses.base import safe_divide
from kdkit.models.architectures import padding_row
from kdkit.recipes.stages import Stage
from kdkit.steps import Step, sum_over_replicas
from kdkit.taps import select_inputs
from kdkit.training.checkpoints import Values, assign_running
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
        count = label_count(self.loss, y, sample_weight, y_pred)
        (total_count,) = sum_over_replicas([count])
        # Keras divides by the number of replicas.
        share = self.num_replicas * loss * safe_divide(count, total_count)
        (total,) = sum_over_replicas([share])
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(total, sample_weight=total_count)
        return share, y_pred


class Loop:
    """Trains and evaluates a compiled model, on one device or on replicas.

    Training can start at any step. Keras' `fit` begins an epoch at its first
    batch with metrics at 0, so a run could not continue within an epoch. On
    several devices, it splits batches without regard to their examples. It does
    not run under `tf.distribute.MultiWorkerMirroredStrategy`: before the first
    step, it passes a `PerReplica` batch to the model's build, and it reduces a
    step's scalar logs along their first axis
    (https://github.com/keras-team/keras/issues/20585). These loops call Keras'
    compiled versions of the model's steps.
    """

    def __init__(self, trainer: keras.Model, distribution):
        self._trainer, self._strategy = trainer, distribution.strategy
        self._elements_per_batch = distribution.shares.count
        if self._strategy is None:
            trainer.make_train_function()
            trainer.make_test_function()
            self._train_on = trainer.train_function
            self._test_on = trainer.test_function
        else:
            self._train_on = self._on_replicas(trainer.train_step)
            self._test_on = self._on_replicas(trainer.test_step)

    def fit(
        self,
        batches: tf.data.Dataset,
        *,
        steps_per_epoch: int,
        initial_epoch: int,
        initial_step: int,
        running: Values | None,
        epochs: int,
        validation_data: tf.data.Dataset,
        callbacks: list,
    ) -> None:
        """Trains as `keras.Model.fit` does, but from any step."""
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            model=self._trainer,
            epochs=epochs,
            steps=steps_per_epoch,
        )
        self._evaluate(validation_data, 1)
        iterator = self._iterator(batches)
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self._trainer.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            if running is not None:
                assign_running(self._trainer, running)
            for step in range(initial_step, steps_per_epoch):
                callbacks.on_train_batch_begin(step)
                logs = self._train_on(iterator)
                callbacks.on_train_batch_end(step, logs)
            initial_step, running = 0, None
            callbacks.on_epoch_end(epoch, self._trainer.get_metrics_result())
        callbacks.on_train_end()

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the losses and the compiled metrics on some batches."""
        count = int(batches.cardinality()) // self._elements_per_batch
        return self._evaluate(batches, count)

    def _evaluate(self, batches, count):
        self._trainer.reset_metrics()
        iterator = self._iterator(batches)
        for _ in range(count):
            self._test_on(iterator)
        return self._trainer.get_metrics_result()

    def _iterator(self, batches):
        """The batches, or each replica's shares of them."""
        if self._strategy is None:
            return iter(batches)
        return iter(
            self._strategy.distribute_datasets_from_function(lambda _: batches)
        )

    def _on_replicas(self, step):
        """A step on the next shares; returns the first replica's logs."""
        strategy = self._strategy

        def run(iterator):
            logs = strategy.run(step, args=(next(iterator),))
            return {
                name: strategy.experimental_local_results(value)[0]
                for name, value in logs.items()
            }

        if self._trainer.run_eagerly:
            return run
        return tf.function(run, autograph=False, reduce_retracing=True)
