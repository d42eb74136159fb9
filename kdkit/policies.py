"""Models in another precision: the same weights, other policies."""

import keras

from kdkit.errors import UsageError

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
