"""A step of training on each backend of Keras: the gradient and the update."""

import importlib

import keras

from kdkit.steps.replicas import sum_over_replicas

MODULES = {
    "tensorflow": "kdkit.steps.tensorflow_step",
    "jax": "kdkit.steps.jax_step",
    "torch": "kdkit.steps.torch_step",
}
Step = importlib.import_module(MODULES[keras.config.backend()]).Step

__all__ = ["Step", "sum_over_replicas"]
