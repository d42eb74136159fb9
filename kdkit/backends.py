"""The Keras backend: which it is, and precisions on every backend.

Computations are written for every backend. Batches in `tf.data`, exported files
and the runs of the command line need TensorFlow.
"""

from kdkit.errors import UsageError
from kdkit.late import keras, tf


def on_tensorflow() -> bool:
    """Whether Keras runs on TensorFlow."""
    return keras.config.backend() == "tensorflow"


def need_tensorflow(what: str) -> None:
    """Raises an error on other backends than TensorFlow."""
    if not on_tensorflow():
        raise UsageError(
            f"{what} needs KERAS_BACKEND=tensorflow. Received: "
            f"{keras.config.backend()!r}."
        )


def with_policy(model, name: str):
    """Returns the model, or a copy with its weights and another policy."""
    config = model.get_config()
    changed = _changed(config, name)
    if changed == config:
        return model
    copy = type(model).from_config(changed)
    copy.set_weights(model.get_weights())
    # Functional models have no policy in their config, and Keras scales a
    # model's losses by the model's policy, not by its layers' policies.
    copy.dtype_policy = name
    return copy


def as_float32(model):
    """Returns the model, or a float32 copy of one in another precision."""
    return with_policy(model, "float32")


def _changed(node, name):
    """Returns a config with another policy for every floating-point layer."""
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
    """Returns a gradient as one tensor with one row per embedding."""
    if gradient is None or not on_tensorflow():
        return gradient
    return tf.convert_to_tensor(gradient)
