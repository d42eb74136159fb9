"""The backend that Keras runs on, and packages that few parts need.

What computes is written for every backend. Batches in `tf.data`, exported files
and the runs of the command line are TensorFlow's. Their modules take `tf` from
here, which imports it when a name of it is first used.
"""

import importlib

import keras

from kdkit.errors import UsageError


class LateModule:
    """A module that is imported when a name of it is first used.

    Args:
        name: string. Its full name.
        packages: string. What `pip install` needs to bring it.
    """

    def __init__(self, name: str, packages: str):
        self._name = name
        self._packages = packages

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # asked for by inspection, not by us
            raise AttributeError(attribute)
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            raise UsageError(
                f"{self._name}.{attribute} is needed here, and {self._name} "
                f"cannot be imported: {error}. Expected it beside Keras on "
                f"{keras.config.backend()!r}. Run pip install "
                f"{self._packages}."
            ) from error
        return getattr(module, attribute)


tf = LateModule("tensorflow", "tensorflow tensorflow-text")
tf_text = LateModule("tensorflow_text", "tensorflow tensorflow-text")


def on_tensorflow() -> bool:
    """Whether Keras runs on TensorFlow."""
    return keras.config.backend() == "tensorflow"


def need_tensorflow(what: str) -> None:
    """Refuses what works on Keras' TensorFlow backend alone.

    Args:
        what: string. What was asked for.

    Raises:
        UsageError: (a `ValueError`) on another backend.
    """
    if not on_tensorflow():
        raise UsageError(
            f"{what} needs the TensorFlow backend of Keras. Expected "
            "KERAS_BACKEND=tensorflow, and the packages tensorflow and "
            f"tensorflow-text. Received: {keras.config.backend()!r}. Save the "
            "model with model.save(...), and load it in a program on that "
            "backend: the files are the same."
        )


POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def check_policy(name: str) -> None:
    """Checks that models are trained in a precision of this name.

    Raises:
        UsageError: (a `ValueError`) if not.
    """
    if name not in POLICIES:
        raise UsageError(
            f"`dtype_policy` must be one of {POLICIES}. Received: {name!r}."
        )


def with_policy(model, name: str):
    """Returns the model, or a copy with its weights and another policy.

    Args:
        model: a Keras model with `get_config` and `from_config`.
        name: string. One of `POLICIES`. What computes in another one gets it.
    """
    config = model.get_config()
    changed = _changed(config, name)
    if changed == config:
        return model
    copy = type(model).from_config(changed)
    copy.set_weights(model.get_weights())
    # Functional models have none in their configuration, and Keras scales the
    # losses of a model by its own, not by those of its layers.
    copy.dtype_policy = name
    return copy


def as_float32(model):
    """Returns the model, or a float32 copy of one in another precision.

    LiteRT has few operations in half precision, and the precision of a file
    is chosen when it is written, not when the model is trained.

    Args:
        model: as in `with_policy`.
    """
    return with_policy(model, "float32")


def _changed(node, name):
    """A configuration with another policy wherever numbers are floats."""
    if isinstance(node, (list, tuple)):
        return type(node)(_changed(child, name) for child in node)
    if not isinstance(node, dict):
        return node
    if node.get("class_name") == "DTypePolicy" and _is_float(node["config"]):
        return keras.dtype_policies.serialize(keras.DTypePolicy(name))
    return {key: _changed(child, name) for key, child in node.items()}


def _is_float(policy_config):
    """Whether a policy is float32, or (mixed_)float16 or (mixed_)bfloat16."""
    return policy_config["name"].endswith(("float32", "float16"))


def whole(gradient):
    """Returns a gradient as one tensor, of which each row stands once.

    TensorFlow gives the gradient of word embeddings as slices, one for each
    token of the batch. Keras' Adam squares them one by one, so that the second
    moment of a word which occurs n times is the sum of n squares and not the
    square of the sum: up to n times too small, and the word's step too long. A
    row of segment embeddings occurs thousands of times. Other backends give one
    tensor as it is.

    Args:
        gradient: tensor, `tf.IndexedSlices` or `None`.

    Returns:
        Tensor of the weight's shape, or `None`.
    """
    if gradient is None or not on_tensorflow():
        return gradient
    return tf.convert_to_tensor(gradient)


def check_chunk_size(chunk_size) -> None:
    """Refuses what is no number of positions.

    Raises:
        UsageError: unless it is an integer above 0 or `None`.
    """
    if chunk_size is not None and not (
        isinstance(chunk_size, int) and chunk_size > 0
    ):
        raise UsageError(
            "Invalid value for argument `chunk_size`. Expected an integer "
            f"above 0 or None. Received: chunk_size={chunk_size!r}."
        )
