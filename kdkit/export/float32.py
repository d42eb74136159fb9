"""Models in mixed or half precision, as float32 models."""

import keras


def as_float32(model):
    """Returns the model, or a float32 copy of one in another precision.

    LiteRT has few operations in half precision, and the precision of a file
    is chosen when it is written, not when the model is trained. The copy has
    the model's weights.

    Args:
        model: a Keras model with `get_config` and `from_config`.
    """
    config = model.get_config()
    float32_config = _with_float32_policies(config)
    if float32_config == config:
        return model
    copy = type(model).from_config(float32_config)
    copy.set_weights(model.get_weights())
    return copy


def _with_float32_policies(node):
    """Replaces half and mixed precision in a configuration."""
    if isinstance(node, (list, tuple)):
        return type(node)(_with_float32_policies(child) for child in node)
    if not isinstance(node, dict):
        return node
    if node.get("class_name") == "DTypePolicy" and _is_half(node["config"]):
        return keras.dtype_policies.serialize(keras.DTypePolicy("float32"))
    return {name: _with_float32_policies(child) for name, child in node.items()}


def _is_half(policy_config):
    """Whether a policy is (mixed_)float16 or (mixed_)bfloat16."""
    return policy_config["name"].endswith("float16")
