"""Bytes of a teacher's outputs in float32, bfloat16 or int8."""

import math

import ml_dtypes
import numpy as np

from kdkit.models.heads import EXCLUDED

# The type of a file's numbers by precision. NumPy cannot load bfloat16.
PRECISIONS = {"fp32": "float32", "bf16": "uint16", "int8": "int8"}
LARGEST, EXCLUDED_CODE = 127, -128  # of int8, after a scale of four bytes


def pack(values: np.ndarray, precision: str, exact: int = 0) -> bytes:
    """Returns an array as bytes; the last `exact` numbers are not rounded."""
    values = np.ascontiguousarray(values, "float32")
    if exact:
        rounded = pack(values[..., :-exact], precision)
        return values[..., -exact:].tobytes() + rounded
    if precision == "fp32":
        return values.tobytes()
    if precision == "bf16":
        return values.astype(ml_dtypes.bfloat16).tobytes()
    left_out = _is_excluded(values)
    others = np.where(left_out, 0.0, values)
    scale = np.float32(max(np.abs(others).max(initial=0.0), 1e-30) / LARGEST)
    numbers = np.rint(others / scale).astype("int8")
    if left_out.any():
        numbers[left_out], scale = EXCLUDED_CODE, -scale
    return scale.tobytes() + numbers.tobytes()


def _is_excluded(values):
    """Returns which numbers are logits of excluded classes, even rounded."""
    return (values < 0.9 * EXCLUDED) & np.isfinite(values)


def unpack(content, out: np.ndarray, precision: str, exact: int = 0):
    """Writes the numbers of a packed array, `uint8`, into an array."""
    if exact:
        kept = out[..., -exact:]
        unpack(content[: 4 * kept.size], kept, "fp32")
        unpack(content[4 * kept.size :], out[..., :-exact], precision)
    elif precision == "fp32":
        out[...] = content.view("float32").reshape(out.shape)
    elif precision == "bf16":
        out[...] = content.view(ml_dtypes.bfloat16).reshape(out.shape)
    else:
        numbers = content[4:].view("int8").reshape(out.shape)
        (scale,) = content[:4].view("float32")
        np.multiply(numbers, abs(scale), out=out)
        if scale < 0:
            out[numbers == EXCLUDED_CODE] = EXCLUDED


def packed_size(shape: tuple[int, ...], precision: str, exact: int = 0) -> int:
    """Returns the bytes of a packed array."""
    numbers = math.prod(shape)
    kept = numbers // shape[-1] * exact if exact else 0
    size = (numbers - kept) * np.dtype(PRECISIONS[precision]).itemsize
    return 4 * kept + size + 4 * (precision == "int8")


def squares(values, content: bytes, precision: str, exact: int = 0):
    """Returns the sums of squares of rounding errors and of rounded numbers."""
    if precision == "fp32":
        return np.zeros(2)
    found = np.empty(values.shape, "float32")
    unpack(np.frombuffer(content, "uint8"), found, precision, exact)
    if exact:
        found, values = found[..., :-exact], values[..., :-exact]
    counts = np.isfinite(values) & np.isfinite(found) & ~_is_excluded(values)
    values = values[counts]
    both = found[counts] - values, values
    return np.array([np.square(one, dtype="float64").sum() for one in both])
