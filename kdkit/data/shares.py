"""Which rows of a batch each replica gets."""

import dataclasses

import numpy as np

from kdkit.backends import tf


@dataclasses.dataclass(frozen=True)
class Shares:
    """The shares of a batch that belong to the replicas of this process.

    Replica r of R gets the rows from `n * r // R` on, up to those of the next
    one, so that shares differ by at most one row. A batch of fewer rows than
    there are replicas leaves some of them with none.

    Args:
        first: int. The first replica of this process, from 0. Defaults to `0`.
        count: int. The replicas of this process. Defaults to `1`.
        total: int. The replicas of all processes. Defaults to `1`.
    """

    first: int = 0
    count: int = 1
    total: int = 1

    def of_rows(self, rows: np.ndarray) -> list[np.ndarray]:
        """Returns the numbers of the rows of each replica of this process.

        >>> Shares(count=2, total=2).of_rows(np.arange(5))
        [array([0, 1]), array([2, 3, 4])]
        """
        return [
            rows[begin:end]
            for begin, end in (
                self._bounds(number, len(rows)) for number in range(self.count)
            )
        ]

    def of_batches(self, batches: "tf.data.Dataset") -> "tf.data.Dataset":
        """Returns the shares of each batch, one after the other.

        Args:
            batches: `tf.data.Dataset` of known or endless length, whose tensors
                have as many rows each.
        """
        if self.total == 1:
            return batches

        def of_batch(*batch):
            num_rows = tf.shape(tf.nest.flatten(batch)[0], "int64")[0]

            def share(number):
                begin, end = self._bounds(number, num_rows)
                parts = tf.nest.map_structure(lambda t: t[begin:end], batch)
                return parts if len(parts) > 1 else parts[0]

            return tf.data.Dataset.range(self.count).map(share)

        return batches.flat_map(of_batch).apply(
            tf.data.experimental.assert_cardinality(
                self.num_shares(batches.cardinality())
            )
        )

    def num_shares(self, num_batches):
        """Returns how many shares so many batches are; endless ones stay so."""
        endless = num_batches == tf.data.experimental.INFINITE_CARDINALITY
        return num_batches if endless else num_batches * self.count

    def _bounds(self, number, num_rows):
        replica = self.first + number
        return (
            num_rows * replica // self.total,
            num_rows * (replica + 1) // self.total,
        )


WHOLE = Shares()  # one device has all rows
