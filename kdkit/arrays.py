"""Rows of different lengths in one array."""

import itertools

from kdkit.late import np


def joined(rows: list[list[int]]) -> "tuple[np.ndarray, np.ndarray]":
    """Returns the ids of all rows as one `int32` array, and their lengths."""
    lengths = np.fromiter(map(len, rows), "int32", len(rows))
    values = itertools.chain.from_iterable(rows)
    return np.fromiter(values, "int32", int(lengths.sum())), lengths
