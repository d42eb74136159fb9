"""The training step on PyTorch."""

import keras
import torch

from kdkit.steps.evaluation import EvaluationStep
from kdkit.weights import note_gradients


class Step(EvaluationStep):
    """The training step of a `Distiller` on PyTorch."""

    num_replicas = 1

    def make_train_function(self, force=False):
        """Builds the optimizer, then makes the step as Keras does."""
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def train_step(self, data):
        """Runs one update: each model forward once, the student backward."""
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
        # Without a gradient, as for the head in an intermediate stage, a weight
        # does not change, not even by weight decay.
        trained = [
            (gradient, variable)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None
        ]
        with torch.no_grad():
            self.optimizer.apply_gradients(trained)
        return self.compute_metrics(x, y, y_pred, sample_weight)
