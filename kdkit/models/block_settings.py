"""Activation and epsilon of blocks and heads."""

import dataclasses
import math

from kdkit.errors import UsageError, shortened
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

    Raises:
        UsageError: (a `ValueError`) if the activation is unknown or the
            epsilon is not a number above 0.
    """

    activation: str
    layer_norm_epsilon: float

    def __post_init__(self):
        name = self.activation
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise UsageError(
                f"Unknown activation. Expected one of {sorted(ACTIVATIONS)}. "
                f"Received: {shortened(name)}."
            )
        epsilon = self.layer_norm_epsilon
        if not isinstance(epsilon, float) or not 0 < epsilon < 1:
            raise UsageError(
                "layer_norm_epsilon must be a float between 0 and 1. Received: "
                f"{shortened(epsilon)}."
            )

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
