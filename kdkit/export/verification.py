"""Is an exported file the model? Both on the same batches, compared."""

import dataclasses
import os
from collections.abc import Callable
from collections.abc import Iterable

import numpy as np

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.export.inputs import pad
from kdkit.export.inputs import random_batch
from kdkit.export.inputs import to_int32
from kdkit.export.interface import Interface

FP32_TOLERANCE = 1e-4  # largest absolute difference of a logit
# What lets oneDNN round the factors of matrix products.
ROUNDING = ("ONEDNN_DEFAULT_FPMATH_MODE", "TF_SET_ONEDNN_FPMATH_MODE")
GENERATED_BATCH_SIZE = 8
GENERATED_LENGTHS = (32, 11)  # tokens, where the length is dynamic
SEED = 0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Outputs of a file beside those of the Keras model.

    Args:
        max_abs_difference: float. As in `ExportReport`.
        same_top_class: float or `None`. As in `ExportReport`.
        examples: int. As in `ExportReport`.
    """

    max_abs_difference: float
    same_top_class: float | None
    examples: int


def verification_batches(
    data: Iterable | None, interface: Interface, sequence_length: int | None
):
    """Returns checked batches, the user's or generated ones.

    Args:
        data: iterable of batches, dicts of integer arrays or tuples that
            start with one; or `None` for generated batches, the same ones
            every time.
        interface: `Interface` of the model.
        sequence_length: int or `None`. What batches are padded to.

    Returns:
        A list of dicts of int32 arrays.

    Raises:
        UsageError: (a `ValueError`) if a batch does not fit, there is none,
            or the model does not tell how many tokens it knows.
    """
    if data is None:
        return _generate(interface, sequence_length)
    batches = [
        pad(
            to_int32(
                batch[0] if isinstance(batch, tuple) else batch,
                interface.input_names,
            ),
            sequence_length,
        )
        for batch in data
    ]
    if not batches:
        raise UsageError(
            "`verification_data` is empty. Expected at least one batch. Pass "
            "verification_data=None to verify on generated batches."
        )
    return batches


def _generate(interface, sequence_length):
    if interface.vocabulary_size is None:
        raise UsageError(
            "The model has no embedding layer that tells its vocabulary size. "
            "Expected batches to verify the file on. Received: "
            "verification_data=None."
        )
    if sequence_length:
        lengths = (sequence_length, sequence_length)
    else:
        longest = interface.max_sequence_length or max(GENERATED_LENGTHS)
        lengths = tuple(min(length, longest) for length in GENERATED_LENGTHS)
    rng = np.random.default_rng(SEED)
    return [
        random_batch(
            GENERATED_BATCH_SIZE * interface.rows_per_output,
            length,
            interface.input_names,
            interface.vocabulary_size,
            interface.num_segments,
            rng,
        )
        for length in lengths
    ]


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


def compare_file(
    expected, open_file: Callable, partial, batches, path, precision: str
) -> Comparison:
    """Compares a LiteRT file, which has not got its name yet, with the model.

    Args:
        expected, batches: as in `compare`.
        open_file: callable from a path to the callable of `compare`.
        partial: path of the file.
        path: path that it is to have.
        precision: string. In fp32 differences are bounded.

    Raises:
        RunError: as in `compare`, or if the interpreter cannot run it.
    """
    try:
        return compare(
            expected,
            open_file(partial),
            batches,
            file=str(path),
            tolerance=FP32_TOLERANCE if precision == "fp32" else None,
        )
    except UsageError as error:
        raise RunError(f"{path} was not written. {error}") from error


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
