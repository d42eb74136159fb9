"""Compares an exported file with the Keras model on the same batches."""

import warnings
from collections.abc import Callable

import numpy as np

from kdkit.errors import RunError
from kdkit.late import tf
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.weights import untrained_weights

FP32_TOLERANCE = 1e-4  # largest absolute difference of a logit
# A probability changes by at most half of the largest change of a logit.
PROBABILITY_TOLERANCE = FP32_TOLERANCE / 2
# The smallest cosine of a sentence embedding. Other precisions: `LEAST_COSINE`.
LEAST_COSINES = {"fp32": 0.99999, "fp16": 0.999}
LEAST_COSINE = 0.8


def reference_outputs(model, batches):
    """Runs the Keras model, for the comparison with a file."""
    outputs = []
    for number, batch in enumerate(batches, start=1):
        output = np.asarray(model(batch, training=False), dtype="float32")
        _require_finite(output, "The Keras model", number)
        outputs.append(output)
    return outputs


def compare(
    expected,
    exported: Callable,
    batches,
    file: str,
    precision: str,
    outputs: str = "logits",
) -> dict:
    """Returns the differences on all batches, which `ExportReport` describes.

    Positions of padding do not count in outputs for each token.
    """
    pairs = []
    differences = []
    for number, batch in enumerate(batches, start=1):
        reference, output = expected[number - 1], np.asarray(exported(batch))
        if output.shape != reference.shape:
            raise RunError(
                f"{file} was not written: its output has the wrong shape. "
                f"Expected {reference.shape}. Received: {output.shape}."
            )
        _require_finite(output, f"{file} was not written: it", number)
        counts = np.ones(output.shape[:-1], bool)
        mask = np.asarray(batch.get("padding_mask"))
        if output.ndim == 3 and mask.shape == counts.shape:
            counts = mask > 0
        reference, output = reference[counts], output[counts]
        pairs.append((reference, output))
        differences.append(float(np.abs(reference - output).max()))
    worst = int(np.argmax(differences))
    tolerance = np.inf
    if precision == "fp32":
        tolerance = FP32_TOLERANCE
        if outputs == SENTENCE_EMBEDDING:
            tolerance *= max(1, *(np.abs(one).max() for one in expected))
        elif outputs != "logits":
            tolerance = PROBABILITY_TOLERANCE
    if differences[worst] > tolerance:
        raise RunError(
            f"{file} was not written: its outputs differ from the Keras "
            f"model's by {differences[worst]:.3g} in batch {worst + 1} of "
            f"{len(batches)}. Expected at most {tolerance:g}."
        )
    found = {"max_abs_difference": differences[worst]}
    first, second = (np.concatenate(some) for some in zip(*pairs, strict=True))
    if outputs == SENTENCE_EMBEDDING:
        return found | _cosines(first, second, file, precision)
    return found | {"same_top_class": _same_top_class(first, second, outputs)}


def _cosines(expected, received, file, precision):
    """Returns the cosines of sentence embeddings; they may not be too small."""
    cosines = cosine_similarities(expected, received)
    smallest = float(cosines.min())
    least = LEAST_COSINES.get(precision, LEAST_COSINE)
    if smallest < least:
        raise RunError(
            f"{file} was not written: its vectors differ from the Keras "
            f"model's. Expected cosines of at least {least}. Received: "
            f"{smallest:.5f}, in the mean {cosines.mean():.5f}."
        )
    return {"smallest_cosine": smallest, "mean_cosine": float(cosines.mean())}


def cosine_similarities(first, second) -> np.ndarray:
    """Returns the cosines between the rows of two arrays; 1 for equal rows."""
    first, second = (np.asarray(one, "float64") for one in (first, second))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    cosines = products / np.where(lengths == 0, 1, lengths)
    return np.where((first == second).all(axis=1), 1.0, cosines)


def _require_finite(output, who, number):
    wrong = np.count_nonzero(~np.isfinite(output))
    if wrong:
        raise RunError(
            f"{who} returns NaN or infinity in {wrong} of {output.size} "
            f"outputs of batch {number}."
        )


def _same_top_class(expected, received, outputs):
    """Returns the share of equal decisions; `None` for single logits."""
    if outputs == "sigmoid":
        return float(((expected > 0.5) == (received > 0.5)).mean())
    if expected.shape[-1] == 1:
        return None
    same = expected.argmax(axis=-1) == received.argmax(axis=-1)
    return float(same.mean())


def warn_untrained_layers(model, batch) -> None:
    """Warns about layers that the output needs and that were not trained."""
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
            f"Never trained: {', '.join(map(repr, reached))} of "
            f"{model.name!r}. The output is random. Add an objective on the "
            "logits, or a hard_label_weight.",
            stacklevel=4,  # the caller of `to_litert`
        )
