"""A step on JAX: a function from the state of a model to its next state."""

import itertools
import warnings
from typing import Any
from typing import NamedTuple

import jax
import keras

from kdkit.errors import UsageError
from kdkit.weights import note_gradients


class _TaughtBatch(NamedTuple):
    """A batch of data with the weights of the teachers.

    As arguments of the compiled step they are buffers that it reads. Found by
    the trace they would be constants in the compiled program.
    """

    data: Any
    teachers: list


class Step:
    """What a `Distiller` does with a batch on JAX."""

    num_replicas = 1  # one program sees the whole batch, on all its devices
    has_checked_data = True  # where there is no `validate_batch`
    _is_trained = None

    def make_train_function(self, force=False):
        """Compiles the step as Keras does, and hands it the teachers.

        The optimizer is built first: a loaded model has slots for all weights.
        """
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._with_teachers(
                self.train_function, checks=True
            )
            self._is_trained = None

    def make_test_function(self, force=False):
        """Likewise for the step of evaluation."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = self._with_teachers(self.test_function)

    def train_step(self, state, data):
        """One update: a forward of each model, a backward of the student.

        Args:
            state: tuple of lists of arrays: the values of the trainable
                variables, of the others, of the optimizer's and the metrics'.
            data: a batch, as in `keras.Model.train_step`.

        Returns:
            Tuple of the logs and the next state.
        """
        trainable, non_trainable, of_optimizer, metrics = state

        def loss(trainable):
            state = (trainable, non_trainable, metrics)
            return self._run(state, data, of_optimizer)

        if self._is_trained is None:
            self._is_trained = _dependencies(loss, trainable)
            note_gradients(self.trainable_variables, self._is_trained)
        gradients, (logs, non_trainable, metrics) = jax.grad(
            loss, has_aux=True
        )(trainable)
        # JAX has zeros where there is no gradient. An intermediate stage
        # leaves the head alone: no gradient, no decay, also of its average.
        gradients = [
            gradient if is_trained else None
            for gradient, is_trained in zip(
                gradients, self._is_trained, strict=True
            )
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist")
            trainable, of_optimizer = self.optimizer.stateless_apply(
                of_optimizer, gradients, trainable
            )
        return logs, (trainable, non_trainable, of_optimizer, metrics)

    def test_step(self, state, data):
        """The same losses in inference mode, and the compiled metrics.

        Args:
            state: as in `train_step`, without the optimizer's.
            data: a batch.

        Returns:
            Tuple of the logs and the next state.
        """
        trainable, *_ = state
        _, (logs, non_trainable, metrics) = self._run(state, data)
        return logs, (trainable, non_trainable, metrics)

    def _run(self, state, data, of_optimizer=None):
        """Returns the loss, scaled where there is an optimizer's state.

        Beside it the logs, and the next values of the variables that are not
        trained and of the metrics.
        """
        teachers = self.teachers_variables()
        weights = [variable.value for variable in teachers]
        if isinstance(data, _TaughtBatch):
            data, weights = data
        training = of_optimizer is not None
        trainable, non_trainable, metrics = state
        values = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, non_trainable, strict=True),
            *zip(self.metrics_variables, metrics, strict=True),
            *zip(teachers, weights, strict=True),
        ]
        if training:
            values += zip(self.optimizer.variables, of_optimizer, strict=True)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with keras.StatelessScope(values, collect_losses=True) as scope:
            loss, y_pred = self.run_student(
                x, y, sample_weight, self.run_teachers(x), training
            )
            logs = self.compute_metrics(x, y, y_pred, sample_weight)
            if training:
                loss = self.optimizer.scale_loss(loss)
        return loss, (
            logs,
            [*map(scope.get_current_value, self.non_trainable_variables)],
            [*map(scope.get_current_value, self.metrics_variables)],
        )

    def _with_teachers(self, function, checks=False):
        """A function of state and iterator whose batches bring the weights.

        With `checks` it checks the very first batch.
        """
        variables = self.teachers_variables()  # a walk through all layers

        def run(state, iterator):
            weights = [variable.value for variable in variables]
            try:
                if checks and not self.has_checked_data:
                    iterator = self._check_first(state, iterator)
                return function(
                    state, (_TaughtBatch(data, weights) for data in iterator)
                )
            except UsageError:
                self._take_back(state)
                raise

        return run

    def _check_first(self, state, iterator):
        """Checks the next batch, and returns an iterator that begins with it.

        In `fit` the variables have no values: these are in the state.
        """
        trainable, non_trainable, *_ = state
        values = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, non_trainable, strict=True),
        ]
        iterator = iter(iterator)
        taken = [*itertools.islice(iterator, 1)]
        for data in taken:
            with keras.StatelessScope(values):
                self.validate_batch(data)
            self.has_checked_data = True
        return itertools.chain(taken, iterator)

    def _take_back(self, state):
        """Gives the variables the values that Keras took for a first step."""
        trainable, non_trainable, *of_optimizer, metrics = state
        values = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, non_trainable, strict=True),
            *zip(self.metrics_variables, metrics, strict=True),
        ]
        for state_of_optimizer in of_optimizer:
            values += zip(
                self.optimizer.variables, state_of_optimizer, strict=True
            )
        for variable, value in values:
            variable.assign(value)


def _dependencies(loss, values) -> tuple[bool, ...]:
    """Which of its arguments a loss depends on, as its program has it.

    Args:
        loss: callable of a list of arrays, which returns a scalar and more.
        values: list of arrays.

    Returns:
        Tuple of bools, one per array.
    """
    program = jax.make_jaxpr(lambda values: loss(values)[0])(values).jaxpr
    needed = {id(variable) for variable in program.outvars}
    for equation in reversed(program.eqns):
        if any(id(variable) in needed for variable in equation.outvars) and (
            equation.primitive.name != "stop_gradient"
        ):
            needed.update(map(id, equation.invars))
    return tuple(id(variable) in needed for variable in program.invars)
