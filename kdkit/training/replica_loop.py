"""The loops over epochs and batches: Keras' own, and that of several replicas.

Keras' `fit` splits batches itself, without regard to what is a row of them, and
does not run under `tf.distribute.MultiWorkerMirroredStrategy`: before the first
step it hands a `PerReplica` batch to what builds the model, and it reduces the
scalar logs of a step along their first axis
(https://github.com/keras-team/keras/issues/20585). This loop calls the model's
public `train_step` and `test_step`; there is nothing to build, and logs are
those of the first replica.
"""

import keras

from kdkit.backends import tf


class KerasLoop:
    """What one device trains with: Keras' own loop.

    Args:
        trainer: compiled `keras.Model`.
    """

    def __init__(self, trainer):
        self._trainer = trainer

    def fit(self, batches: tf.data.Dataset, **options) -> None:
        """Trains, as `ReplicaLoop.fit` does."""
        self._trainer.fit(batches, shuffle=False, verbose=0, **options)

    def evaluate(self, batches: tf.data.Dataset) -> dict[str, float]:
        """Returns the losses and the compiled metrics of some batches."""
        return self._trainer.evaluate(batches, verbose=0, return_dict=True)


class ReplicaLoop:
    """Trains and evaluates a compiled model on the replicas of a strategy.

    Args:
        trainer: `keras.Model` whose steps give the logs of all replicas.
        distribution: `Distribution` that its variables were made in.
    """

    def __init__(self, trainer, distribution):
        self._trainer = trainer
        self._strategy = distribution.strategy
        self._num_shares = distribution.shares.count
        self._train_step = self._compiled(trainer.train_step)
        self._test_step = self._compiled(trainer.test_step)

    def fit(
        self,
        shares: tf.data.Dataset,
        *,
        steps_per_epoch: int,
        initial_epoch: int,
        epochs: int,
        validation_data: tf.data.Dataset,
        callbacks: list,
    ) -> None:
        """Trains as `keras.Model.fit` does.

        Args:
            shares: `tf.data.Dataset`, endless. The shares of each batch that
                the replicas of this process get, one after the other.
            steps_per_epoch: int. Batches of an epoch.
            initial_epoch: int. The epoch to begin with, from 0.
            epochs: int. The number of the last one.
            validation_data: `tf.data.Dataset` of shares, of known length.
            callbacks: list of `keras.callbacks.Callback`.
        """
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            model=self._trainer,
            epochs=epochs,
            steps=steps_per_epoch,
        )
        iterator = self._iterator(shares)
        callbacks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self._trainer.reset_metrics()
            callbacks.on_epoch_begin(epoch)
            for step in range(steps_per_epoch):
                callbacks.on_train_batch_begin(step)
                logs = self._train_step(iterator)
                callbacks.on_train_batch_end(step, logs)
            logs = self._trainer.get_metrics_result()
            for name, value in self.evaluate(validation_data).items():
                logs[f"val_{name}"] = value
            callbacks.on_epoch_end(epoch, logs)
        callbacks.on_train_end(logs)

    def evaluate(self, shares: tf.data.Dataset) -> dict[str, float]:
        """Returns the losses and the compiled metrics of some batches.

        Args:
            shares: `tf.data.Dataset` of known length, as in `fit`.
        """
        self._trainer.reset_metrics()
        iterator = self._iterator(shares)
        for _ in range(int(shares.cardinality()) // self._num_shares):
            self._test_step(iterator)
        return self._trainer.get_metrics_result()

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
