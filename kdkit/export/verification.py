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
# A probability changes by at most half of the largest change of a logit.
PROBABILITY_TOLERANCE = FP32_TOLERANCE / 2
# By precision, and whether the outputs are logits.
TOLERANCES = {
    ("fp32", True): FP32_TOLERANCE,
    ("fp32", False): PROBABILITY_TOLERANCE,
}
# Settings that let oneDNN round the factors of matrix products.
ROUNDING = ("ONEDNN_DEFAULT_FPMATH_MODE", "TF_SET_ONEDNN_FPMATH_MODE")
MAX_NAMED = 3  # number of untrained layers in a warning


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The differences between a file's outputs and the Keras model's.

    Args:
        max_abs_difference: float. As in `ExportReport`.
        same_top_class: float or `None`. As in `ExportReport`.
        examples: int. As in `ExportReport`.
    """

    max_abs_difference: float
    same_top_class: float | None
    examples: int


def reference_outputs(model, batches):
    """Runs the Keras model, for the comparison with a file.

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
        exported: callable from a batch to a NumPy array, which runs the file.
        batches: list of dicts of int32 arrays.
        file: string. The file's name in messages.
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
                f"batch {number}. Expected the Keras model's, "
                f"{reference.shape}. Received: {output.shape}."
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
    """Returns settings that make the Keras model's own outputs inexact."""
    found = [
        f"{name}={os.environ[name]}" for name in ROUNDING if name in os.environ
    ]
    if not found:
        return ""
    return (
        f" With {' and '.join(found)} in the environment the Keras model "
        "rounds its outputs. Export without."
    )


def _require_finite(output, who, number):
    wrong = np.count_nonzero(~np.isfinite(output))
    if wrong:
        raise RunError(
            f"{who} returns NaN or infinity in {wrong} of {output.size} "
            f"outputs of batch {number}."
        )


def _same_top_class(expected, received):
    """Returns the share of equal top classes; `None` for single logits."""
    if expected[0].shape[-1] == 1:
        return None
    same = [
        (reference.argmax(axis=-1) == output.argmax(axis=-1)).ravel()
        for reference, output in zip(expected, received, strict=True)
    ]
    return float(np.concatenate(same).mean())


def warn_untrained_layers(model, batch) -> None:
    """Warns about layers that the output needs and that were not trained.

    An example is a head with random weights whose student learned only from
    attention and hidden states: its logits are random.

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
        # A list, so that `next` is called once for each weight.
        if any([next(gradients) is not None for _ in some])
    ]
    if reached:
        warnings.warn(
            f"Never trained: {_named(reached)} of {model.name!r}. No objective "
            "of its Distiller has a gradient there, so the weights and the "
            "output are random. Add an objective on the logits, such as "
            'kdkit.Objective(kdkit.losses.SoftCrossEntropy(), tap="logits"), '
            "or a hard_label_weight.",
            stacklevel=4,  # the caller of `to_litert`
        )


def _named(paths):
    """Returns layers' paths in words, the last layers first."""
    named = [repr(path) for path in reversed(paths)][:MAX_NAMED]
    others = len(paths) - len(named)
    text = f"the layer{'s' * (len(paths) > 1)} {', '.join(named)}"
    return f"{text} and {others} more" if others else text
