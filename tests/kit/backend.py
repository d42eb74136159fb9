"""What tests need of Keras' backend: gradients, compilation, differences."""

import importlib

import keras
import numpy as np
import pytest

BACKEND = keras.config.backend()
# `tensorflow`, `jax` or `torch`.
native = importlib.import_module(BACKEND)

tensorflow_only = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="of the TensorFlow backend alone"
)
not_on_jax = pytest.mark.skipif(
    BACKEND == "jax",
    reason="JAX has no float16 on CPUs, no state in what is not trained, and "
    "no tables of positions for lengths that are not known",
)
not_on_torch = pytest.mark.skipif(
    BACKEND == "torch",
    reason="Keras has no several steps at once there, and PyTorch's compiler "
    "fails in functional models",
)


def gradient(function, tensor):
    """The gradient of a scalar function at a tensor."""
    if BACKEND == "jax":
        return native.grad(function)(native.numpy.asarray(tensor))
    if BACKEND == "torch":
        tensor = keras.ops.convert_to_tensor(tensor).requires_grad_()
        return native.autograd.grad(function(tensor), tensor)[0].numpy()
    tensor = native.convert_to_tensor(tensor)
    with native.GradientTape() as tape:
        tape.watch(tensor)
        value = function(tensor)
    return tape.gradient(value, tensor)


def gradients_of(function, variables):
    """The gradients of a scalar in variables, as arrays.

    Args:
        function: callable without arguments.
        variables: list of `keras.Variable`.
    """
    if BACKEND == "jax":

        def of_values(values):
            mapping = [*zip(variables, values, strict=True)]
            with keras.StatelessScope(mapping):
                return function()

        found = native.grad(of_values)([each.value for each in variables])
    elif BACKEND == "torch":
        found = native.autograd.grad(
            function(), [each.value for each in variables]
        )
    else:
        with native.GradientTape() as tape:
            value = function()
        found = [
            native.convert_to_tensor(each)
            for each in tape.gradient(value, variables)
        ]
    return [keras.ops.convert_to_numpy(each) for each in found]


def compiled(function):
    """The function by XLA, or as it is on PyTorch."""
    if BACKEND == "jax":
        return native.jit(function)
    if BACKEND == "torch":
        return lambda *tensors: keras.tree.map_structure(
            keras.ops.convert_to_numpy, function(*tensors)
        )
    return native.function(function, jit_compile=True)


def _constant(value):
    """A property that is what it is."""
    return property(lambda model: value, lambda model, given: None)


def ease():
    """Sets up the backend for tests, which would be slow or differ in form.

    JAX compiles each operation for each shape. Steps are compiled as a whole
    there where other backends run them untraced, and weights are drawn by
    NumPy. Tensors of PyTorch with a gradient become arrays as others do.
    """
    if BACKEND == "jax":

        def truncated_normal(key, lower, upper, shape=(), dtype="float32"):
            generator = np.random.default_rng(np.asarray(key).ravel())
            drawn = np.clip(generator.normal(size=shape), lower, upper)
            return native.numpy.asarray(drawn.astype(dtype))

        native.random.truncated_normal = truncated_normal
        for name, value in (("run_eagerly", False), ("jit_compile", True)):
            setattr(keras.Model, name, _constant(value))
    if BACKEND == "torch":
        native.Tensor.__array__ = lambda tensor, dtype=None, copy=None: (
            np.array(tensor.detach().cpu().numpy(), dtype=dtype)
        )
