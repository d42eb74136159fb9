"""What each precision of quantisation-aware training quantises."""

import dataclasses

from kdkit.errors import unknown


@dataclasses.dataclass(frozen=True)
class Scheme:
    """What a precision of exported files quantises."""

    weight_bits: int
    block_size: int | None
    is_static: bool


SCHEMES = {
    "static_int8": Scheme(weight_bits=8, block_size=None, is_static=True),
    "int4": Scheme(weight_bits=4, block_size=32, is_static=False),
}
PRECISIONS = tuple(SCHEMES)
RANGES_FILE = "quantization.json"  # in a student's preset directory
MIN_ROWS = 16  # of calibration data


def require_precision(precision: str) -> None:
    """Raises an error for a precision without quantisation-aware training.

    Args:
        precision: string.

    Raises:
        UsageError: (a `ValueError`) with the precisions that have it.
    """
    if precision not in SCHEMES:
        raise unknown("precision", precision, PRECISIONS)
