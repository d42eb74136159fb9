"""What the last operation of a model makes of its output.

The operation that made a tensor is private in Keras: the public `Layer.output`
is ambiguous where a layer is called twice, and an operation of `keras.ops` is
no layer.
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
# Layers, and classes of `keras.ops`, that leave the values as they are.
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
_ROWS = 3  # of a probe, and its length along axes of unknown size
_LARGEST_PROBE = 10_000_000


class Ending(NamedTuple):
    """What a model's output is, as far as its graph shows.

    Attributes:
        function: `"softmax"` or `"sigmoid"` for probabilities, `"linear"` for
            the output of a layer without activation, `None` where the graph
            does not show it, as in a subclassed layer or model.
        layer: string. The name of the layer or operation that applies it.
    """

    function: str | None
    layer: str

    @property
    def is_probabilities(self) -> bool:
        """Whether the output is proven to be probabilities."""
        return self.function in ("softmax", "sigmoid")


def ending(model) -> Ending:
    """Returns what the last operation of a model with one output is.

    Nested models are followed inwards, and operations that leave the values as
    they are (dropout, reshape, cast) backwards. Functions in `Lambda` layers
    and activations are called on a few random numbers.

    Args:
        model: functional or built sequential `keras.Model`.
    """
    return _follow(model.outputs[0])


def _follow(tensor):
    operation, number, inputs = private.made_by(tensor)
    (source, *_) = inputs or (tensor,)
    return _of_operation(operation, number, source)


def _of_operation(operation, number, source):
    """The ending of a tensor.

    Args:
        operation: what made it.
        number: int. Which of its outputs the tensor is.
        source: the first tensor that the operation takes.
    """
    name = operation.name
    if isinstance(operation, keras.Model):
        inner = _outputs(operation)
        return _follow(inner[number]) if inner else Ending(None, name)
    if isinstance(operation, keras.layers.Wrapper):
        return _of_operation(operation.layer, number, source)
    function = _function(operation, source)
    if function is not None:
        return Ending(function, name)
    if isinstance(operation, _PASSING) or (
        _is_op(operation) and type(operation).__name__ in _PASSING_OPS
    ):
        return _follow(source)
    if isinstance(operation, _ACTIVATED) and _is_linear(operation.activation):
        if not isinstance(operation, _LINEAR):
            return _follow(source)
        return Ending("linear", name)
    if isinstance(operation, keras_hub.layers.ReversibleEmbedding):
        return Ending("linear", name)
    return Ending(None, name)


def _outputs(model):
    """The symbolic outputs of a model, none of a subclassed one."""
    try:
        return model.outputs
    except (AttributeError, ValueError):
        return None


def _function(operation, source):
    """`"softmax"`, `"sigmoid"`, or `None` for other operations."""
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
    if isinstance(operation, _ACTIVATED) and not _is_linear(activation):
        like = keras.KerasTensor((None, source.shape[-1]), source.dtype)
        return _probe(activation, like)
    return None


def _probe(function, like):
    """What a function makes of random numbers, shaped like a tensor."""
    shape = [_ROWS, *(size or _ROWS for size in like.shape[1:])]
    if math.prod(shape) > _LARGEST_PROBE:
        return None
    numbers = np.random.default_rng(0).normal(scale=2.0, size=shape)
    try:
        made = function(ops.convert_to_tensor(numbers, dtype=like.dtype))
        made = ops.convert_to_numpy(ops.cast(made, "float32"))
    except Exception:  # a function of others may raise anything
        return None
    if made.shape != numbers.shape:
        return None
    if np.all(made >= 0) and np.allclose(made.sum(-1), 1, atol=0.01):
        return "softmax"
    if np.allclose(made, 1 / (1 + np.exp(-numbers)), atol=0.01):
        return "sigmoid"
    return None


def _is_linear(activation):
    return activation in (None, keras.activations.linear)


def _is_op(operation):
    """Whether it is one of the operations of `keras.ops`."""
    return not isinstance(operation, keras.Layer) and type(
        operation
    ).__module__.startswith("keras.")
