"""What a preset's README says of settings that keras-hub's classes lack."""

import keras
import numpy as np
from keras import ops

from kdkit.models.families import family_of
from kdkit.models.variants import as_keras_hub
from kdkit.models.variants import extra_settings

NUM_ROWS = 4
LENGTH = 16
NUM_PREDICTIONS = 4


def settings_note(model) -> str:
    """Returns what differs where a model's preset is loaded without kdkit.

    The difference is measured: both forms of the model run on a generated
    batch.

    Args:
        model: a keras-hub backbone, or a task model around one.

    Returns:
        String of one paragraph; empty where nothing differs.
    """
    settings = extra_settings(model)
    if not settings:
        return ""
    family = family_of(getattr(model, "backbone", model))
    parts = []
    for key, value in settings.items():
        own, of_head = family.block_settings, ""
        if key.startswith("head_"):
            own, of_head = family.head_settings, " of the head"
        field = key.removeprefix("head_")
        parts.append(
            f"the {field.replace('_', ' ')}{of_head} is {value} and not "
            f"{getattr(own, field)}"
        )
    difference, largest = _difference(model, as_keras_hub(model))
    return (
        f"With kdkit, {', '.join(parts)}. keras-hub's own classes have no "
        "argument for this: loaded without kdkit, the outputs differ by up to "
        f"{difference:.1g} of {largest:.1g} (measured on {NUM_ROWS} generated "
        f"rows of {LENGTH} tokens)."
    )


def _difference(model, other):
    """The largest difference between two models' outputs, and the largest."""
    inputs = _generated(model)
    pairs = [
        [ops.convert_to_numpy(output) for output in outputs]
        for outputs in zip(
            keras.tree.flatten(model(inputs, training=False)),
            keras.tree.flatten(other(inputs, training=False)),
            strict=True,
        )
    ]
    return (
        max(float(np.abs(one - two).max()) for one, two in pairs),
        max(float(np.abs(one).max()) for one, _ in pairs),
    )


def _generated(model):
    backbone = getattr(model, "backbone", model)
    generator = np.random.default_rng(0)
    family = family_of(backbone)
    length = min(LENGTH, family.num_positions(backbone) or LENGTH)
    shape = (NUM_ROWS, length)
    size = family.size(backbone, "vocabulary_size")
    inputs = {
        "token_ids": generator.integers(0, size, shape),
        "padding_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "mask_positions": np.tile(np.arange(NUM_PREDICTIONS), (NUM_ROWS, 1)),
    }
    return {name: inputs[name].astype("int32") for name in model.input}
