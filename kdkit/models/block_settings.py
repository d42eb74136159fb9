"""Activation and epsilon of blocks and heads."""

import dataclasses
import math

from kdkit.late import keras

# The supported ones, by Hugging Face's names. Except for "gelu_new" these are
# also Keras' names. The tanh forms of GELU differ only by rounding.
ACTIVATIONS = (
    "gelu",
    "gelu_new",
    "relu",
    "relu6",
    "silu",
    "tanh",
    "sigmoid",
    "linear",
    "mish",
)
SAME_ACTIVATIONS = {
    "gelu_python": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_python_tanh": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "swish": "silu",
}


@dataclasses.dataclass(frozen=True)
class BlockSettings:
    """The activation and the epsilon of blocks and heads.

    Args:
        activation: string. A key of `ACTIVATIONS`.
        layer_norm_epsilon: float.
    """

    activation: str
    layer_norm_epsilon: float

    def is_same(self, other: "BlockSettings") -> bool:
        """Whether another object has the same meaning."""
        return self.activation == other.activation and math.isclose(
            self.layer_norm_epsilon, other.layer_norm_epsilon
        )


def gelu_new(x):
    """GELU approximated by tanh, as OpenAI and Google computed it."""
    return keras.activations.gelu(x, approximate=True)


def activation_function(name: str):
    """Returns the function for a name in `ACTIVATIONS`."""
    return gelu_new if name == "gelu_new" else getattr(keras.activations, name)
