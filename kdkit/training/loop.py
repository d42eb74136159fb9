"""The loop over epochs, which can start at any step.

Keras' `fit` begins an epoch at its first batch with metrics at 0, so a run
could not continue within an epoch. On several devices, it splits batches
without regard to their examples. It does not run under
`tf.distribute.MultiWorkerMirroredStrategy`: before the first step, it passes a
`PerReplica` batch to the model's build, and it reduces a step's scalar logs
along their first axis (https://github.com/keras-team/keras/issues/20585).
These loops call Keras' compiled versions of the model's steps.
"""

import keras

from kdkit.late import tf
from kdkit.training.checkpoints import Values, assign_running


def make_loop(trainer: keras.Model, distribution) -> "_Loop":
    """Returns the loop for one device, or for several replicas."""
    if distribution.strategy is None:
        return KerasLoop(trainer)
    return ReplicaLoop(trainer, distribution)


class _Loop:
    """Trains and evaluates a compiled model."""

    elements_per_batch = 1

    def __init__(self, trainer):
        self._trainer = trainer

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
        step_on = self._train_step()
        iterator = self._iterator(batches)
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self._trainer.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            if running is not None:
                assign_running(self._trainer, running)
            for step in range(initial_step, steps_per_epoch):
                callbacks.on_train_batch_begin(step)
                logs = step_on(iterator)
                callbacks.on_train_batch_end(step, logs)
            initial_step, running = 0, None
            callbacks.on_epoch_end(epoch, self._trainer.get_metrics_result())
        callbacks.on_train_end()

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the losses and the compiled metrics on some batches."""
        count = int(batches.cardinality()) // self.elements_per_batch
        return self._evaluate(batches, count)

    def _evaluate(self, batches, count):
        self._trainer.reset_metrics()
        step_on = self._test_step()
        iterator = self._iterator(batches)
        for _ in range(count):
            step_on(iterator)
        return self._trainer.get_metrics_result()


class KerasLoop(_Loop):
    """The loop for one device, with the steps as Keras compiles them."""

    def _train_step(self):
        self._trainer.make_train_function()
        return self._trainer.train_function

    def _test_step(self):
        self._trainer.make_test_function()
        return self._trainer.test_function

    def _iterator(self, batches):
        return iter(batches)


class ReplicaLoop(_Loop):
    """The loop for a strategy's replicas, with the first replica's logs."""

    def __init__(self, trainer, distribution):
        super().__init__(trainer)
        self._strategy = distribution.strategy
        self.elements_per_batch = distribution.shares.count
        self._compiled_train_step = self._compiled(trainer.train_step)
        self._compiled_test_step = self._compiled(trainer.test_step)

    def _train_step(self):
        return self._compiled_train_step

    def _test_step(self):
        return self._compiled_test_step

    def _iterator(self, shares):
        return iter(
            self._strategy.distribute_datasets_from_function(lambda _: shares)
        )

    def _compiled(self, step):
        """A step of all replicas on their next shares; returns its logs."""
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
