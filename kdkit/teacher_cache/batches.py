"""Which rows are run together."""

import numpy as np

BATCH_ROWS = 64


def cut(
    rows: np.ndarray, lengths: np.ndarray, keys: np.ndarray
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

    >>> lengths, keys = np.array([3, 9, 5]), np.zeros((3, 2), "uint64")
    >>> cut(np.arange(3), lengths, keys)
    [array([1, 2, 0])]
    """
    order = np.lexsort((keys[rows, 1], keys[rows, 0], -lengths[rows]))
    return np.split(rows[order], range(BATCH_ROWS, len(rows), BATCH_ROWS))
