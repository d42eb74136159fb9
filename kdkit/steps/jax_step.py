"""The training step on JAX: a function from a model's state to the next."""

import warnings

import jax
import keras

from kdkit.weights import note_gradients


class Step:
    """The training step of a `Distiller` on JAX."""

    num_replicas = 1  # one program sees the whole batch, on all its devices
    _is_trained = None

    def make_train_function(self, force=False):
        """Compiles the step as Keras does, with the teachers' weights."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._with_teachers(self.train_function)
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
            state = trainable, non_trainable, optimizer_state, metrics
            return self._run(state, data, training=True)

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

    def _run(self, state, data, training=False):
        """Returns the loss, the logs and the next values of variables."""
        data, weights = data
        values = self._with_values(state)
        values += zip(self.teachers_variables(), weights, strict=True)
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

    def _with_values(self, state):
        """Returns the variables, each with its value in a state."""
        groups = [
            self.trainable_variables,
            self.non_trainable_variables,
            self.metrics_variables,
        ]
        if len(state) > len(groups):
            groups.insert(2, self.optimizer.variables)
        return [
            pair
            for variables, values in zip(groups, state, strict=True)
            for pair in zip(variables, values, strict=True)
        ]

    def _with_teachers(self, function):
        """A function of state and iterator that adds teachers' weights."""
        variables = self.teachers_variables()  # a walk through all layers

        def run(state, iterator):
            weights = [variable.value for variable in variables]
            try:
                return function(state, ((data, weights) for data in iterator))
            except Exception:
                # Keras took the variables' values for its first step.
                for variable, value in self._with_values(state):
                    variable.assign(value)
                raise

        return run


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
