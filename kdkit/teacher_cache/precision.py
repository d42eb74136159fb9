"""Arrays as bytes in fewer bits, and what that changes."""

import dataclasses
import math

import ml_dtypes
import numpy as np

from kdkit.errors import UsageError
from kdkit.models.heads import EXCLUDED

# Bytes of a number, and of an array beside its numbers.
PRECISIONS = {"fp32": (4, 0), "bf16": (2, 0), "int8": (1, 4)}
LARGEST, LEFT_OUT = 127, -128  # int8


def check_precision(precision: str) -> None:
    """Checks that there is such a precision.

    Raises:
        UsageError: (a `ValueError`) if not.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"A cache is kept as one of {sorted(PRECISIONS)}. Received: "
            f"{precision!r}."
        )


def pack(values: np.ndarray, precision: str, exact: int = 0) -> bytes:
    """Returns an array as bytes.

    As int8 it is scaled by its largest number, which stands before it. Logits
    of classes that are no candidates are not: beside them all others would be
    0. They are -128, and the scale is negative where there are any.

    Args:
        values: `float32` array.
        precision: string.
        exact: int. So many numbers at the end of the last axis stay as they
            are, and stand first. Defaults to `0`.
    """
    values = np.ascontiguousarray(values, "float32")
    if exact:
        return values[..., -exact:].tobytes() + pack(
            values[..., :-exact], precision
        )
    if precision == "fp32":
        return values.tobytes()
    if precision == "bf16":
        return values.astype(ml_dtypes.bfloat16).tobytes()
    left_out = _is_left_out(values)
    others = np.where(left_out, 0.0, values)
    scale = np.float32(max(np.abs(others).max(initial=0.0), 1e-30) / LARGEST)
    numbers = np.rint(others / scale).astype("int8")
    if left_out.any():
        numbers[left_out], scale = LEFT_OUT, -scale
    return scale.tobytes() + numbers.tobytes()


def _is_left_out(values):
    """Which numbers are logits of no candidates, also in fewer bits."""
    return (values < 0.9 * EXCLUDED) & np.isfinite(values)


def unpack(
    content: np.ndarray, precision: str, out: np.ndarray, exact: int = 0
) -> None:
    """Puts the numbers of an array, from its bytes, into an array.

    Args:
        content: `uint8` array.
        precision: string. As it was packed.
        out: `float32` array of the shape of what was packed.
        exact: int. As it was packed. Defaults to `0`.

    >>> out = np.empty(2, "float32")
    >>> content = np.frombuffer(pack(np.array([1.0, -0.5]), "int8"), "uint8")
    >>> unpack(content, "int8", out)
    >>> out.round(2).tolist()
    [1.0, -0.5]
    """
    if exact:
        kept = out[..., -exact:]
        unpack(content[: 4 * kept.size], "fp32", kept)
        unpack(content[4 * kept.size :], precision, out[..., :-exact])
    elif precision == "fp32":
        out[...] = content.view("float32").reshape(out.shape)
    elif precision == "bf16":
        out[...] = content.view(ml_dtypes.bfloat16).reshape(out.shape)
    else:
        numbers = content[4:].view("int8").reshape(out.shape)
        (scale,) = content[:4].view("float32")
        np.multiply(numbers, abs(scale), out=out)
        if scale < 0:
            out[numbers == LEFT_OUT] = EXCLUDED


def packed_size(shape: tuple[int, ...], precision: str, exact: int = 0) -> int:
    """Returns the bytes of an array as `pack` makes them.

    Args:
        shape: tuple of ints. Of the array.
        precision, exact: as in `pack`.
    """
    each, beside = PRECISIONS[precision]
    rounded = math.prod(shape)
    kept = rounded // shape[-1] * exact if exact else 0
    return (rounded - kept) * each + beside + 4 * kept


@dataclasses.dataclass
class Error:
    """How far packed numbers are from those that were packed.

    Args:
        largest: float. The largest difference.
        squared: float. The sum of squared differences.
        signal: float. The sum of squared numbers.
    """

    largest: float = 0.0
    squared: float = 0.0
    signal: float = 0.0

    def add(
        self,
        values: np.ndarray,
        content: bytes,
        precision: str,
        exact: int = 0,
    ) -> None:
        """Counts an array, but no logits of what is no candidate.

        Nor what is kept as it is, or is not finite.
        """
        if precision == "fp32":
            return
        found = np.empty(values.shape, "float32")
        unpack(np.frombuffer(content, "uint8"), precision, found, exact)
        if exact:
            found, values = found[..., :-exact], values[..., :-exact]
        counts = (
            ~_is_left_out(values) & np.isfinite(values) & np.isfinite(found)
        )
        found, values = found[counts], values[counts]
        difference = np.abs(found - values)
        self.largest = max(self.largest, float(difference.max(initial=0.0)))
        self.squared += float(np.square(difference, dtype="float64").sum())
        self.signal += float(np.square(values, dtype="float64").sum())
