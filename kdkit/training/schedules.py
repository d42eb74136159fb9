"""Learning rates over the updates of a stage."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="kdkit")
class LinearWarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    r"""Linear warm-up from 0, then linear decay to 0.

    With $w$ = `warmup_fraction` × `num_steps` updates of warm-up, the rate of
    update $s$ is $\eta s / w$ up to $w$, and
    $\eta (n - s) / (n - w)$ after it.

    Args:
        learning_rate: float. The highest rate, $\eta$.
        num_steps: int. Number of updates, $n$.
        warmup_fraction: float. Share of the updates spent on warm-up. Defaults
            to `0.1`, as in BERT and TinyBERT.
        steps_per_update: int. How many steps the optimiser, which counts
            these, accumulates gradients for an update. Defaults to `1`.

    Example:

    >>> schedule = LinearWarmupDecay(1.0, num_steps=10, warmup_fraction=0.2)
    >>> [round(float(schedule(step)), 3) for step in (0, 1, 2, 6, 10)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

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
        falling = (self.num_steps - step) / decay_steps
        return self.learning_rate * ops.clip(
            ops.minimum(rising, falling), 0.0, 1.0
        )

    def get_config(self):
        return {
            "learning_rate": self.learning_rate,
            "num_steps": self.num_steps,
            "warmup_fraction": self.warmup_fraction,
            "steps_per_update": self.steps_per_update,
        }
