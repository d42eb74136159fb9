"""Batches and the inputs that a model has."""

import keras

from kdkit.errors import UsageError


def padding_mask(x):
    """Returns the padding mask in the inputs `x`, or `None`."""
    return x.get("padding_mask") if isinstance(x, dict) else None


def select_inputs(model, x):
    """Leaves out of a dict what the model has no input for.

    A teacher with segments and a student without can share one batch. Keras
    itself would take inputs by their order instead.
    """
    if not isinstance(x, dict) or not isinstance(model, keras.Model):
        return x
    try:
        names = model.input
    except (AttributeError, ValueError):  # not a functional model
        return x
    if not isinstance(names, dict):
        return x
    missing = sorted(set(names) - set(x))
    if missing:
        raise UsageError(
            f"Inputs of model {model.name!r} are missing. Expected "
            f"{sorted(names)}. Received: {sorted(x)}. Add {missing} to the "
            "data set's features."
        )
    return {name: x[name] for name in names}
