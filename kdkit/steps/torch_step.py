"""A step on PyTorch."""

import keras
import torch

from kdkit.steps.evaluation import EvaluationStep
from kdkit.weights import note_gradients


class Step(EvaluationStep):
    """What a `Distiller` does with a batch on PyTorch."""

    num_replicas = 1
    has_checked_data = True  # where there is no `validate_batch`

    def make_train_function(self, force=False):
        """Builds the optimizer, then makes the step as Keras does."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._checked(self.train_function)

    def _checked(self, function):
        """A function of a list of batches that checks the very first."""

        def run(batches):
            if not self.has_checked_data:
                with torch.no_grad():
                    self.validate_batch(batches[0])
                self.has_checked_data = True
            return function(batches)

        return run

    def train_step(self, data):
        """One update: a forward of each model, a backward of the student."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with torch.no_grad():
            teachers_taps = self.run_teachers(x)
        loss, y_pred = self.run_student(
            x, y, sample_weight, teachers_taps, training=True
        )
        variables = self.trainable_variables
        gradients = [None] * len(variables)
        if loss.requires_grad:
            gradients = torch.autograd.grad(
                self.optimizer.scale_loss(loss),
                [variable.value for variable in variables],
                allow_unused=True,
            )
        note_gradients(
            variables, [gradient is not None for gradient in gradients]
        )
        # An intermediate stage leaves the head alone: no gradient, no decay.
        trained = [
            (gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None
        ]
        with torch.no_grad():
            self.optimizer.apply_gradients(trained)
        return self.compute_metrics(x, y, y_pred, sample_weight)
