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


class Loop:
    """Trains and evaluates a compiled model, on one device or on replicas."""

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
