"""Compares an exported file with the Keras model on the same batches."""

import dataclasses
import os
import warnings
from collections.abc import Callable

import numpy as np

from kdkit.backends import tf
from kdkit.errors import RunError
from kdkit.weights import untrained_weights

FP32_TOLERANCE = 1e-4  # largest absolute difference of a logit
# What lets oneDNN round the factors of matrix products.
ROUNDING = ("ONEDNN_DEFAULT_FPMATH_MODE", "TF_SET_ONEDNN_FPMATH_MODE")
MAX_NAMED = 3  # untrained layers in a warning


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How the outputs of a file compare with those of the Keras model.

    Args:
        max_abs_difference: float. As in `ExportReport`.
        same_top_class: float or `None`. As in `ExportReport`.
        examples: int. As in `ExportReport`.
    """

    max_abs_difference: float
    same_top_class: float | None
    examples: int


def reference_outputs(model, batches):
    """Runs the Keras model, which a file is then compared with.

    Args:
        model: the Keras model.
        batches: list of dicts of int32 arrays.

    Returns:
        A list of float32 arrays.

    Raises:
        RunError: if an output is not finite.
    """
    outputs = []
    for number, batch in enumerate(batches, start=1):
        output = np.asarray(model(batch, training=False), dtype="float32")
        _require_finite(output, "Cannot export: the Keras model", number)
        outputs.append(output)
    return outputs


def compare(
    expected, exported: Callable, batches, file: str, tolerance: float | None
) -> Comparison:
    """Compares an exported file with the Keras model on all batches.

    Args:
        expected: list of arrays, the Keras model's outputs.
        exported: callable from a batch to a NumPy array: the file.
        batches: list of dicts of int32 arrays.
        file: string. The name of the file in messages.
        tolerance: float or `None`. The largest absolute difference allowed;
            `None` allows any finite one.

    Raises:
        RunError: if a shape differs, an output is not finite, or a difference
            is larger than the tolerance.
    """
    received = []
    differences = []
    for number, batch in enumerate(batches, start=1):
        reference, output = expected[number - 1], np.asarray(exported(batch))
        if output.shape != reference.shape:
            raise RunError(
                f"{file} was not written: its output has the wrong shape in "
                f"batch {number}. Expected {reference.shape}, as the Keras "
                f"model's. Received: {output.shape}."
            )
        _require_finite(output, f"{file} was not written: it", number)
        received.append(output)
        differences.append(float(np.abs(reference - output).max()))
    worst = int(np.argmax(differences))
    if tolerance is not None and differences[worst] > tolerance:
        raise RunError(
            f"{file} was not written: its outputs differ from the Keras "
            f"model's by {differences[worst]:.3g} in batch {worst + 1} of "
            f"{len(batches)}. Expected at most {tolerance:g}.{_rounding()}"
        )
    return Comparison(
        max_abs_difference=differences[worst],
        same_top_class=_same_top_class(expected, received),
        examples=sum(len(output) for output in received),
    )


def _rounding():
    """What makes the Keras model's own outputs inexact, if anything does."""
    found = [
        f"{name}={os.environ[name]}" for name in ROUNDING if name in os.environ
    ]
    if not found:
        return ""
    return (
        f" With {' and '.join(found)} in the environment it is the Keras model "
        "that rounds. Export without."
    )


def _require_finite(output, who, number):
    wrong = np.count_nonzero(~np.isfinite(output))
    if wrong:
        raise RunError(
            f"{who} gives NaN or infinity in {wrong} of {output.size} outputs "
            f"of batch {number}."
        )


def _same_top_class(expected, received):
    """The share of equal highest logits; `None` for single logits."""
    if expected[0].shape[-1] == 1:
        return None
    same = [
        (reference.argmax(axis=-1) == output.argmax(axis=-1)).ravel()
        for reference, output in zip(expected, received, strict=True)
    ]
    return float(np.concatenate(same).mean())


def warn_of_untrained_layers(model, batch) -> None:
    """Warns of layers that the output needs and a `Distiller` left untrained.

    An example is a head with random weights whose student learned from
    attention and hidden states alone: the logits are chance.

    Args:
        model: the Keras model that is exported.
        batch: dict of int32 arrays, the model's inputs.
    """
    layers = untrained_weights(model)
    weights = [weight.value for some in layers.values() for weight in some]
    if not weights:
        return
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        for weight in weights:
            tape.watch(weight)
        output = model(batch, training=False)
    gradients = iter(tape.gradient(output, weights))
    reached = [
        path
        for path, some in layers.items()
        # A list, so that as many are taken as there are weights.
        if any([next(gradients) is not None for _ in some])
    ]
    if reached:
        warnings.warn(
            f"Never trained: {_named(reached)} of {model.name!r}. No objective "
            "of its Distiller has a gradient there, so the weights are random "
            "and the output is chance. Add an objective on the logits, such as "
            'kdkit.Objective(kdkit.losses.SoftCrossEntropy(), tap="logits"), '
            "or a hard_label_weight.",
            stacklevel=4,  # the caller of `to_litert`
        )


def _named(paths):
    """The last layers first, as they are nearest to the output."""
    named = [repr(path) for path in reversed(paths)][:MAX_NAMED]
    others = len(paths) - len(named)
    text = f"the layer{'s' * (len(paths) > 1)} {', '.join(named)}"
    return f"{text} and {others} more" if others else text
