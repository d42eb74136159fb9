"""Finds out whether a model's last operation returns logits or probabilities.

The operation that made a tensor is private in Keras. The public `Layer.output`
is ambiguous for a layer that is called twice, and an operation of `keras.ops`
is not a layer.
"""

import math
from typing import NamedTuple

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.taps import private

# Layers that apply their `activation` to their output.
_ACTIVATED = (
    keras.layers.Activation,
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras_hub.layers.MaskedLMHead,
)
_LINEAR = (*_ACTIVATED[1:], keras_hub.layers.ReversibleEmbedding)
# Activations whose results are logits.
LOGITS = (None, keras.activations.linear, keras.activations.log_softmax)
# Layers, and classes of `keras.ops`, that do not change the values.
_PASSING = (
    keras.layers.ActivityRegularization,
    keras.layers.AlphaDropout,
    keras.layers.Dropout,
    keras.layers.Flatten,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.Identity,
    keras.layers.Masking,
    keras.layers.Reshape,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
)
_PASSING_OPS = (
    "Cast",
    "Copy",
    "ExpandDims",
    "GetItem",
    "Identity",
    "Ravel",
    "Reshape",
    "Squeeze",
    "StopGradient",
)
_PROBE_ROWS = 3  # size of a random test input along its first and unknown axes
_LARGEST_PROBE = 10_000_000


class Ending(NamedTuple):
    """The last operation of a model, as far as the model's graph shows it.

    Attributes:
        function: `"softmax"` or `"sigmoid"` for probabilities, `"linear"` for
            the output of a layer without activation or with `log_softmax`,
            `None` if the graph does not show it, as for a subclassed layer or
            model.
        layer: string. The name of the layer or operation that applies it.
    """

    function: str | None
    layer: str

    @property
    def is_probabilities(self) -> bool:
        """Whether the output certainly holds probabilities."""
        return self.function in ("softmax", "sigmoid")


def ending(model) -> Ending:
    """Returns the last operation of a model with one output.

    The search enters nested models and goes back past operations that do not
    change the values (dropout, reshape, cast). Of joined tensors, one of
    probabilities counts. Functions in `Lambda` layers and activations are
    called on a few random numbers.

    Args:
        model: `keras.Model`. The graph of a subclassed one shows nothing.
    """
    outputs = _outputs(model)
    return _follow(outputs[0]) if outputs else Ending(None, model.name)


def _follow(tensor):
    operation, number, inputs = private.made_by(tensor)
    if type(operation).__name__ == "Concatenate":  # the layer or the operation
        ends = [*map(_follow, inputs)]
        known = sorted(ends, key=lambda end: end.function is not None)
        return max(known, key=lambda end: end.is_probabilities)
    (source, *_) = inputs or (tensor,)
    return _operation_ending(operation, number, source)


def _operation_ending(operation, number, source):
    """Returns the ending of a tensor."""
    name = operation.name
    if isinstance(operation, keras.Model):
        inner = _outputs(operation)
        return _follow(inner[number]) if inner else Ending(None, name)
    if isinstance(operation, keras.layers.Wrapper):
        return _operation_ending(operation.layer, number, source)
    function = _function(operation, source)
    if function is not None:
        return Ending(function, name)
    if isinstance(operation, _PASSING) or (
        _is_op(operation) and type(operation).__name__ in _PASSING_OPS
    ):
        return _follow(source)
    if isinstance(operation, _ACTIVATED) and operation.activation in LOGITS:
        if not isinstance(operation, _LINEAR):
            return _follow(source)
        return Ending("linear", name)
    if isinstance(operation, keras_hub.layers.ReversibleEmbedding):
        return Ending("linear", name)
    return Ending(None, name)


def _outputs(model):
    """Returns a model's symbolic outputs, or `None` for a subclassed model."""
    try:
        return model.outputs
    except (AttributeError, ValueError):
        return None


def _function(operation, source):
    """Returns `"softmax"`, `"sigmoid"`, or `None` for other operations."""
    last = (-1, len(source.shape) - 1)
    of_ops = type(operation).__name__ if _is_op(operation) else None
    if isinstance(operation, keras.layers.Softmax) or of_ops == "Softmax":
        return "softmax" if operation.axis in last else None
    if of_ops == "Sigmoid":
        return "sigmoid"
    if isinstance(operation, keras.layers.Lambda):
        return _probe(
            lambda inputs: operation.function(
                inputs, **(operation.arguments or {})
            ),
            source,
        )
    activation = getattr(operation, "activation", None)
    if isinstance(operation, _ACTIVATED) and activation not in LOGITS:
        like = keras.KerasTensor((None, source.shape[-1]), source.dtype)
        return _probe(activation, like)
    return None


def _probe(function, like):
    """Calls a function on random numbers of a tensor's shape; compares."""
    shape = [_PROBE_ROWS, *(size or _PROBE_ROWS for size in like.shape[1:])]
    if math.prod(shape) > _LARGEST_PROBE:
        return None
    numbers = np.random.default_rng(0).normal(scale=2.0, size=shape)
    try:
        made = function(ops.convert_to_tensor(numbers, dtype=like.dtype))
        made = ops.convert_to_numpy(ops.cast(made, "float32"))
    except Exception:  # a user's function may raise anything
        return None
    if made.shape != numbers.shape:
        return None
    if np.all(made >= 0) and np.allclose(made.sum(-1), 1, atol=0.01):
        return "softmax"
    if np.allclose(made, 1 / (1 + np.exp(-numbers)), atol=0.01):
        return "sigmoid"
    return None


def _is_op(operation):
    """Whether `operation` is one of the operations of `keras.ops`."""
    return not isinstance(operation, keras.Layer) and type(
        operation
    ).__module__.startswith("keras.")
