"""Which rows are run together."""

import math
from collections.abc import Callable

import numpy as np

from kdkit.data import rows_within
from kdkit.taps import sizes

BATCH_ROWS = 64


def row_bytes(
    shapes: dict, length: int, sequences_per_row: int, num_classes: int = 0
) -> int:
    """Returns the bytes of what a teacher says of a row, as float32.

    Args:
        shapes: dict from `Entry` to the shape of one, `"length"` in it.
        length: int. Tokens of each sequence of the row.
        sequences_per_row: int.
        num_classes: int. Of logits of which only the first classes are kept,
            how many there are at one time. Defaults to `0`.
    """

    def numbers(entry, shape):
        if entry.top_k and num_classes:
            shape = (*shape[:-1], num_classes)
        return math.prod(sizes(shape, length)) * (
            1 if entry.is_of_rows else sequences_per_row
        )

    return 4 * sum(numbers(entry, shape) for entry, shape in shapes.items())


def cut(
    rows: np.ndarray,
    lengths: np.ndarray,
    keys: np.ndarray,
    bytes_of: Callable[[int], int],
) -> list[np.ndarray]:
    """Returns batches of rows of similar lengths, the longest first.

    The last bits of what a teacher says of a row depend on the length that it
    is padded to, on how many rows are beside it and on its place among them:
    kernels add up in another order for another shape, and compute otherwise
    what is left over at the end of a thread's share. So the rows stand in an
    order of their own, and all batches but the last are full: take some
    batches away, as those that are written already, and the other rows are cut
    into the same batches as before.

    Args:
        rows: int array. The numbers of the rows.
        lengths: int array. Tokens of every row that there is.
        keys: their keys, as `row_keys` returns them.
        bytes_of: callable from a length to the bytes of a row of that length.
            A batch has 64 rows, or fewer so that they are 256 MB at most.

    >>> lengths, keys = np.array([3, 9, 5]), np.zeros((3, 2), "uint64")
    >>> cut(np.arange(3), lengths, keys, lambda length: length)
    [array([1, 2, 0])]
    """
    rows = rows[np.lexsort((keys[rows, 1], keys[rows, 0], -lengths[rows]))]
    batches = []
    while len(rows):
        longest = int(lengths[rows[0]])
        count = rows_within(bytes_of(longest), BATCH_ROWS)
        batches.append(rows[:count])
        rows = rows[count:]
    return batches
