"""A warning for models with layers that no training ever reached."""

import warnings

from kdkit.backends import tf
from kdkit.trained_weights import untrained_weights

MOST_NAMED = 3


def warn_of_untrained_layers(model, batch) -> None:
    """Warns of layers behind the output that a `Distiller` left untrained.

    Such as a head with random weights whose student learned from attention and
    hidden states alone: its answers are chance.

    Args:
        model: the Keras model that is exported.
        batch: dict of int32 arrays, which the model takes.
    """
    layers = untrained_weights(model)
    weights = [weight.value for some in layers.values() for weight in some]
    if not weights:
        return
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for weight in weights:
            tape.watch(weight)
        output = model(batch, training=False)
    gradients = iter(tape.gradient(output, weights))
    reached = [
        path
        for path, some in layers.items()
        # A list, so that as many are taken as there are weights.
        if any([next(gradients) is not None for _ in some])
    ]
    if reached:
        warnings.warn(
            f"Never trained: {_named(reached)} of {model.name!r}. No objective "
            "of its Distiller has a gradient there, so the weights are random "
            "and the output is chance. Add an objective on the logits, such as "
            'kdkit.Objective(kdkit.losses.SoftCrossEntropy(), tap="logits"), '
            "or a hard_label_weight.",
            stacklevel=3,
        )


def _named(paths):
    """The last layers first, as they are nearest to the output."""
    named = [repr(path) for path in reversed(paths)][:MOST_NAMED]
    others = len(paths) - len(named)
    text = f"the layer{'s' * (len(paths) > 1)} {', '.join(named)}"
    return f"{text} and {others} more" if others else text
