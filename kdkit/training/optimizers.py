"""AdamW with exact embedding gradients and a fused update, and schedules."""

import dataclasses
import math

import keras
from keras import ops

from kdkit.backends import need_tensorflow, whole
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.losses import SmoothedCrossEntropy


@keras.saving.register_keras_serializable(package="kdkit")
class AdamW(keras.optimizers.AdamW):
    """Keras' AdamW, but a token's gradients are summed before squaring."""

    def __init__(
        self,
        *,
        fused: bool = False,
        bias_correction: bool = True,
        untrained_rows: dict[str, int] | None = None,
        **options,
    ):
        if fused:
            need_tensorflow("AdamW(fused=True)")
        super().__init__(**options)
        self.fused = fused
        self.bias_correction = bias_correction
        self.untrained_rows = untrained_rows or {}
        self._built_rows = []

    def build(self, variables):
        """Creates the moments of the weights, as Keras' optimizers do."""
        variables = list(variables)
        super().build(variables)
        self._built_rows = self._rows(variables)

    def apply(self, grads, trainable_variables=None):
        """Updates the weights, as Keras' optimizers do."""
        gradients = [whole(gradient) for gradient in grads]
        if trainable_variables is None:
            gradients = _without_rows(gradients, self._built_rows)
        else:
            trainable_variables = list(trainable_variables)
            gradients = self.without_untrained(gradients, trainable_variables)
        update = super().apply
        if not self.fused:
            update(gradients, trainable_variables)
            return

        @tf.function(jit_compile=True, autograph=False)
        def fused(gradients):
            update(gradients, trainable_variables)

        fused(gradients)

    def update_step(self, gradient, variable, learning_rate):
        """Updates a weight, as Keras' optimizers do."""
        if not self.bias_correction:
            # The inverse of Keras' correction of the rate.
            step = ops.cast(self.iterations + 1, variable.dtype)
            powers = [
                ops.power(ops.cast(beta, variable.dtype), step)
                for beta in (self.beta_1, self.beta_2)
            ]
            correction = ops.sqrt(1 - powers[1]) / (1 - powers[0])
            learning_rate = ops.cast(learning_rate, variable.dtype) / correction
        super().update_step(gradient, variable, learning_rate)

    def without_untrained(self, gradients, variables) -> list:
        """Returns gradients with zeros in the untrained rows."""
        return _without_rows(gradients, self._rows(variables))

    def _rows(self, variables):
        """The number of each weight's untrained row, or `None` for none."""
        return [self.untrained_rows.get(one.path) for one in variables]

    def get_config(self):
        return {
            **super().get_config(),
            "fused": self.fused,
            "bias_correction": self.bias_correction,
            "untrained_rows": self.untrained_rows,
        }


def _without_rows(gradients, rows):
    """Gradients, some of them with zeros in one row."""
    return [
        gradient
        if row is None or gradient is None
        else ops.where(
            ops.arange(gradient.shape[0])[:, None] == row,
            ops.zeros_like(gradient),
            gradient,
        )
        for gradient, row in zip(gradients, rows, strict=True)
    ]


@keras.saving.register_keras_serializable(package="kdkit")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then linear decay to 0."""

    def __init__(
        self, learning_rate, num_steps, warmup_fraction=0.1, steps_per_update=1
    ):
        super().__init__()
        self.learning_rate = learning_rate
        self.num_steps = num_steps
        self.warmup_fraction = warmup_fraction
        self.steps_per_update = steps_per_update

    def __call__(self, step):
        step = ops.cast(step // self.steps_per_update, "float32")
        warmup_steps = self.warmup_fraction * self.num_steps
        decay_steps = max(self.num_steps - warmup_steps, 1)
        rising = step / warmup_steps if warmup_steps else 1.0
        left = (self.num_steps - step) / decay_steps
        falling = self._falling(ops.clip(left, 0.0, 1.0))
        return self.learning_rate * ops.clip(
            ops.minimum(rising, falling), 0.0, 1.0
        )

    def _falling(self, left):
        """The share of the peak rate, with a share of the decay left."""
        return left

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_steps": self.num_steps,
            "warmup_fraction": self.warmup_fraction,
            "steps_per_update": self.steps_per_update,
        }


@keras.saving.register_keras_serializable(package="kdkit")
class CosineWarmupDecay(LinearWarmupDecay):
    """Linear warm-up from 0, then half a cosine down to 0."""

    def _falling(self, left):
        return (1.0 - ops.cos(math.pi * left)) / 2


DECAYS = {"linear": LinearWarmupDecay, "cosine": CosineWarmupDecay}


def make_label_loss(stage, loss):
    """Returns a stage's loss on the labels, with its label smoothing.

    Args:
        stage: `kdkit.recipes.Stage`.
        loss: `keras.losses.Loss` of the task.

    Returns:
        A `keras.losses.Loss`, or `None` for a stage without labels.

    Raises:
        UsageError: (a `ValueError`) for smoothing of other labels than classes.
    """
    if stage.objectives and not stage.label_weight:
        return None
    if not stage.label_smoothing:
        return loss
    if not isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        raise UsageError(
            f"Stage {stage.name!r}: label_smoothing is for labels with one "
            f"class each. Received: the loss {loss.name!r}."
        )
    return SmoothedCrossEntropy(stage.label_smoothing, reduction=loss.reduction)


def make_optimizer(
    stage,
    num_steps: int,
    fused: bool = False,
    padding_row: tuple[str, int] | None = None,
):
    """Returns a stage's AdamW optimizer, with its schedule and clipping.

    Args:
        stage: `kdkit.recipes.Stage`.
        num_steps: int. The batches of all its epochs, for the schedule.
        fused: bool. Whether one operation updates all weights, on TensorFlow.
            Defaults to `False`.
        padding_row: tuple `(path, row)` or `None`. The embedding of padding,
            which is not trained unless the stage trains it. Defaults to
            `None`.

    Returns:
        A `keras.optimizers.AdamW`. Biases and norms do not decay.
    """
    learning_rate = stage.learning_rate
    num_parts = stage.gradient_accumulation_steps
    if stage.schedule in DECAYS:
        learning_rate = DECAYS[stage.schedule](
            learning_rate, num_steps, stage.warmup_fraction, num_parts
        )
    settings = dataclasses.asdict(stage.optimizer)
    trains_padding = settings.pop("trains_padding")
    optimizer = AdamW(
        learning_rate=learning_rate,
        weight_decay=stage.weight_decay,
        epsilon=1e-6,  # as in BERT's original optimizer
        fused=fused,
        untrained_rows=None
        if trains_padding or padding_row is None
        else dict([padding_row]),
        gradient_accumulation_steps=num_parts if num_parts > 1 else None,
        **settings,
    )
    # Parts of the variables' names: biases, and the three of normalisations.
    optimizer.exclude_from_weight_decay(
        var_names=["bias", "gamma", "beta", "scale"]
    )
    return optimizer
