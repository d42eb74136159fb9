"""The training step on JAX: a function from a model's state to the next."""

import itertools
import warnings
from typing import Any, NamedTuple

import jax
import keras

from kdkit.errors import UsageError
from kdkit.weights import note_gradients


class _TaughtBatch(NamedTuple):
    """A batch of data with the teachers' weights."""

    data: Any
    teachers: list


class Step:
    """The training step of a `Distiller` on JAX."""

    num_replicas = 1  # one program sees the whole batch, on all its devices
    has_checked_data = True  # for classes without `validate_batch`
    _is_trained = None

    def make_train_function(self, force=False):
        """Compiles the step as Keras does, with the teachers' weights."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._with_teachers(
                self.train_function, checks=True
            )
            self._is_trained = None

    def make_test_function(self, force=False):
        """Does the same for the evaluation step."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = self._with_teachers(self.test_function)

    def train_step(self, state, data):
        """Runs one update: each model forward once, the student backward."""
        trainable, non_trainable, optimizer_state, metrics = state

        def loss(trainable):
            state = (trainable, non_trainable, metrics)
            return self._run(state, data, optimizer_state)

        if self._is_trained is None:
            is_trained = _dependencies(loss, trainable)
            note_gradients(self.trainable_variables, is_trained)
            self._is_trained = is_trained
        gradients, (logs, non_trainable, metrics) = jax.grad(
            loss, has_aux=True
        )(trainable)
        # JAX returns zeros for a missing gradient. Without a gradient, as for
        # the head in an intermediate stage, a weight and its moving average do
        # not change, not even by weight decay.
        gradients = [
            gradient if is_trained else None
            for gradient, is_trained in zip(
                gradients, self._is_trained, strict=True
            )
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Gradients do not exist")
            trainable, optimizer_state = self.optimizer.stateless_apply(
                optimizer_state, gradients, trainable
            )
        return logs, (trainable, non_trainable, optimizer_state, metrics)

    def test_step(self, state, data):
        """Computes the losses in inference mode, and the compiled metrics."""
        trainable, *_ = state
        _, (logs, non_trainable, metrics) = self._run(state, data)
        return logs, (trainable, non_trainable, metrics)

    def _run(self, state, data, optimizer_state=None):
        """Returns the loss, the logs and the next values of variables."""
        teachers = self.teachers_variables()
        weights = [variable.value for variable in teachers]
        if isinstance(data, _TaughtBatch):
            data, weights = data
        training = optimizer_state is not None
        trainable, non_trainable, metrics = state
        values = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, non_trainable, strict=True),
            *zip(self.metrics_variables, metrics, strict=True),
            *zip(teachers, weights, strict=True),
        ]
        if training:
            values += zip(
                self.optimizer.variables, optimizer_state, strict=True
            )
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
        """A function of state and iterator that adds teachers' weights."""
        variables = self.teachers_variables()  # a walk through all layers

        def run(state, iterator):
            weights = [variable.value for variable in variables]
            try:
                if checks and not self.has_checked_data:
                    iterator = self._validate_first(state, iterator)
                return function(
                    state, (_TaughtBatch(data, weights) for data in iterator)
                )
            except UsageError:
                self._take_back(state)
                raise

        return run

    def _validate_first(self, state, iterator):
        """Checks the next batch; returns an iterator that begins with it."""
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
        """Restores the variables' values, which Keras took for a first step."""
        trainable, non_trainable, *optimizer_state, metrics = state
        values = [
            *zip(self.trainable_variables, trainable, strict=True),
            *zip(self.non_trainable_variables, non_trainable, strict=True),
            *zip(self.metrics_variables, metrics, strict=True),
        ]
        for one_state in optimizer_state:
            values += zip(self.optimizer.variables, one_state, strict=True)
        for variable, value in values:
            variable.assign(value)


def _dependencies(loss, values) -> tuple[bool, ...]:
    """Returns which of its arguments a loss depends on."""
    program = jax.make_jaxpr(lambda values: loss(values)[0])(values).jaxpr
    needed = {id(variable) for variable in program.outvars}
    for equation in reversed(program.eqns):
        if any(id(variable) in needed for variable in equation.outvars) and (
            equation.primitive.name != "stop_gradient"
        ):
            needed.update(map(id, equation.invars))
    return tuple(id(variable) in needed for variable in program.invars)
