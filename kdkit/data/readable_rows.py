"""Rows that a model reads, by their numbers."""

import abc
from collections.abc import Iterator

import numpy as np


class ReadableRows(abc.ABC):
    """What the rows of every kind have.

    Attributes:
        lengths: int array of shape `(num_sequences,)`. The positions of each
            sequence that a model says something of.
        sequences_per_row: int.
        sequence_length: int. No sequence is longer.
    """

    lengths: np.ndarray
    sequences_per_row = 1
    sequence_length: int

    def __len__(self):
        return len(self.lengths) // self.sequences_per_row

    @property
    def row_lengths(self) -> np.ndarray:
        """Positions of the longest sequence of every row."""
        return self.lengths.reshape(-1, self.sequences_per_row).max(axis=1)

    def sequences_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the numbers of the sequences of some rows."""
        per_row = self.sequences_per_row
        return (rows[:, np.newaxis] * per_row + np.arange(per_row)).reshape(-1)

    @abc.abstractmethod
    def contents(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the `int32` arrays that tell a sequence from others."""

    @abc.abstractmethod
    def inputs(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns what a model reads of some rows.

        Args:
            rows: int array. Their numbers.
            padded_length: int. The longest of `row_lengths`, or more.
        """
