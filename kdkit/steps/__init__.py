"""A step of training on each backend of Keras: the gradient and the update."""

import importlib

import keras

from kdkit.errors import UsageError

MODULES = {
    "tensorflow": "kdkit.steps.tensorflow_step",
    "jax": "kdkit.steps.jax_step",
    "torch": "kdkit.steps.torch_step",
}
if keras.config.backend() not in MODULES:
    raise UsageError(
        "A Distiller trains on a backend that has gradients. Expected "
        f"KERAS_BACKEND to be one of {sorted(MODULES)}. Received: "
        f"{keras.config.backend()!r}."
    )
Step = importlib.import_module(MODULES[keras.config.backend()]).Step

__all__ = ["Step"]
