"""What the values of a batch show before the first update."""

import warnings

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.errors import UsageError
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.models import num_positions
from kdkit.objectives.label_losses import class_name
from kdkit.objectives.label_losses import ignored_class
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.taps import ending
from kdkit.taps import select_inputs

_OF_CLASSES = ("SparseCategoricalCrossentropy", "SmoothedCrossEntropy")
_OF_SHARES = (
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
)
# How far sums of probabilities are from 1, in single and in half precision.
_TOLERANCES = {"float16": 0.01, "bfloat16": 0.02}
_TOLERANCE = 0.001
_POSITIONS = (
    keras_hub.layers.PositionEmbedding,
    keras_hub.layers.TokenAndPositionEmbedding,
)
_FEW = 32  # numbers that may all be in [0, 1] by chance


def longest_input(model) -> int | None:
    """Returns the longest example that a model reads, `None` for any length.

    Args:
        model: `keras.Model`. A model of a known family, or one with keras-hub's
            position embeddings in it.
    """
    of_family = num_positions(model)
    if of_family is not None:
        return of_family
    found = [
        layer.sequence_length
        for layer in _layers(model)
        if isinstance(layer, _POSITIONS)
    ]
    return min(found, default=None)


def check_positions(model, positions: int, role: str, x) -> None:
    """Refuses examples that are longer than a model's positions.

    Args:
        model: `keras.Model`.
        positions: int, as `longest_input` returns it.
        role: string. `"teacher"` or `"student"`.
        x: the inputs, tensors or arrays. Unknown lengths pass.

    Raises:
        UsageError: if there are any.
    """
    inputs = select_inputs(model, x)
    if isinstance(inputs, dict):
        tokens = [
            value
            for name, value in inputs.items()
            if name.endswith("token_ids") and _rank(value) > 1
        ]
    else:
        tokens = [one for one in keras.tree.flatten(inputs) if _rank(one) == 2]
    lengths = [one.shape[1] for one in tokens if one.shape[1] is not None]
    longest = max(lengths, default=0)
    if longest > positions:
        raise UsageError(
            f"Examples are longer than the {role} reads. Expected at most its "
            f"{positions} positions. Received: {longest} tokens. Cut the "
            "examples, such as with the preprocessor's "
            f"sequence_length={positions}, or build a {role} with "
            f"max_sequence_length={longest}."
        )


def check_label_values(loss, y, num_classes: int | None) -> None:
    """Refuses labels that the compiled loss cannot take.

    Args:
        loss: the compiled loss.
        y: array of labels.
        num_classes: int. Width of the logits.

    Raises:
        UsageError: if there are any.
    """
    name = class_name(loss)
    labels = ops.convert_to_numpy(y)
    if name in _OF_CLASSES:
        ignored = ignored_class(loss)
        if ignored is not None:
            labels = labels[labels != ignored]
        wrong = labels[(labels < 0) | (labels >= num_classes)]
        expected = f"classes from 0 to {num_classes - 1}"
    elif name in _OF_SHARES:
        wrong = labels[(labels < 0) | (labels > 1)]
        expected = "numbers from 0 to 1"
    else:
        return
    if not wrong.size:
        return
    values = ", ".join(f"{value:g}" for value in np.unique(wrong)[:5])
    if name == "SparseCategoricalCrossentropy" and (wrong < 0).all():
        fix = (
            "To ignore them, pass loss=keras.losses."
            "SparseCategoricalCrossentropy(from_logits=True, "
            f"ignore_class={np.unique(wrong)[0]:g}), or give them label 0 and "
            "sample weight 0."
        )
    elif (wrong < 0).all():
        fix = "To ignore them, give them label 0 and sample weight 0."
    else:
        fix = (
            "Correct the labels, or build teacher and student with as many "
            "classes as the labels have."
        )
    raise UsageError(
        f"Labels do not fit the compiled loss {name}. Expected {expected}. "
        f"Received: {values}, in {wrong.size} of {labels.size} labels of the "
        f"first batch. {fix}"
    )


def check_outputs(teachers, student, losses, x) -> None:
    """Refuses models whose outputs on a batch are probabilities.

    Only models whose graph does not show what ends them are run, and cached
    outputs are read.

    Args:
        teachers: list of `keras.Model`, whose logits count.
        student: `keras.Model`.
        losses: list of `kdkit.losses.DistillationLoss` that compare logits.
        x: the inputs of the models, with values.

    Raises:
        UsageError: if no value of at least two rows is negative, and each row
            sums to 1.
    """
    is_binary = any(isinstance(loss, SoftBinaryCrossEntropy) for loss in losses)
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                _check_logits("teacher", "", outputs["logits"], is_binary)
        teachers = []
    for role, model in (
        *(("teacher", one) for one in teachers),
        ("student", student),
    ):
        if ending(model).function is None:
            outputs = model(select_inputs(model, x), training=False)
            (logits,) = keras.tree.flatten(outputs)
            _check_logits(role, f" {model.name!r}", logits, is_binary)


def _check_logits(role, name, logits, is_binary):
    """Refuses logits that are probabilities; warns where a sigmoid is likely.

    It is if all of many different values are from 0 to 1, for a loss that takes
    each logit independently.
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    rows = ops.convert_to_numpy(ops.cast(logits, "float32"))
    rows = rows.reshape(-1, rows.shape[-1])
    if not rows.size or not (rows >= 0).all() or not (rows <= 1).all():
        return
    tolerance = _TOLERANCES.get(dtype, _TOLERANCE)
    sums_to_1 = (np.abs(rows.sum(axis=-1) - 1) <= tolerance).all()
    if len(rows) > 1 and rows.shape[1] > 1 and sums_to_1:
        raise UsageError(
            f"The outputs of {role}{name} are probabilities, not logits: each "
            "row of the first batch sums to 1. Expected the values before the "
            "softmax. Received as first row: "
            f"{np.array2string(rows[0][:5], precision=4)}. Build the {role} "
            "without softmax at its end, and compile losses with "
            "from_logits=True."
        )
    if is_binary and rows.size >= _FEW and rows.min() < rows.max():
        warnings.warn(
            f"The outputs of {role}{name} may be probabilities, not logits: "
            f"all {rows.size} values of the first batch are from 0 to 1. If "
            "they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )


def _layers(model):
    """The layers of a model, and those of models in it."""
    for layer in getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)


def _rank(tensor):
    return len(tensor.shape)
