"""Which rows share a batch, and how long it is: NumPy only."""

from collections.abc import Sequence

import numpy as np

from kdkit.errors import UsageError


def bucket_boundaries(
    lengths: np.ndarray, num_buckets: int | None, maximum: int
) -> tuple[int, ...]:
    """Returns the padded lengths that waste the fewest tokens.

    Of all ways to choose at most `num_buckets` lengths, with every row padded
    to the smallest that holds it, this is one with the fewest padding tokens,
    found by dynamic programming over the lengths that occur.

    Args:
        lengths: int array of shape `(num_rows,)`.
        num_buckets: int or `None`. How many different padded lengths there may
            be. `None` for one, which is `maximum`.
        maximum: int. Longer rows count as this long.

    Returns:
        Tuple of lengths, rising; the last is that of the longest row, or
        `maximum`.

    >>> bucket_boundaries(np.array([2, 3, 3, 9, 10]), num_buckets=2, maximum=16)
    (3, 10)
    >>> bucket_boundaries(np.array([2, 3, 10]), num_buckets=None, maximum=16)
    (16,)
    """
    if num_buckets is None:
        return (maximum,)
    if num_buckets < 1:
        raise UsageError(
            "`num_buckets` must be at least 1. "
            f"Received: num_buckets={num_buckets}."
        )
    if not len(lengths):
        raise UsageError("Bucketing needs at least one row. Received: none.")
    sizes, counts = np.unique(np.minimum(lengths, maximum), return_counts=True)
    num_sizes = len(sizes)
    num_buckets = min(num_buckets, num_sizes)
    # rows_before[i]: rows of the i shortest sizes
    rows_before = np.concatenate([[0], np.cumsum(counts, dtype="int64")])

    # tokens[j]: fewest padded tokens of the j shortest sizes in so many buckets
    tokens = np.full(num_sizes + 1, np.inf)
    tokens[0] = 0
    last_starts = []
    for _ in range(num_buckets):
        rows = rows_before[np.newaxis, 1:] - rows_before[:-1, np.newaxis]
        totals = tokens[:-1, np.newaxis] + rows * sizes[np.newaxis, :]
        totals[np.tril_indices(num_sizes, -1)] = np.inf  # start after end
        last_starts.append(totals.argmin(axis=0))
        tokens = np.concatenate([[np.inf], totals.min(axis=0)])

    boundaries = []
    end = num_sizes
    for starts in reversed(last_starts):
        boundaries.append(int(sizes[end - 1]))
        end = starts[end - 1]
    return tuple(reversed(boundaries))


def epoch_batches(
    lengths: np.ndarray,
    boundaries: Sequence[int],
    batch_size: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
) -> list[tuple[np.ndarray, int]]:
    """Returns the batches of one epoch.

    Rows meet only rows of their bucket, in random order. What does not fill a
    batch moves up to the next longer bucket, so that at most one batch of the
    epoch has fewer than `batch_size` rows. Every row comes once, and every
    epoch has the same number of batches of each shape.

    Args:
        lengths: int array of shape `(num_rows,)`.
        boundaries: padded lengths, rising; the last holds the longest row.
        batch_size: int. Rows of a batch.
        seed: int. Seed of the run.
        epoch: int. Number of the epoch; `(seed, epoch)` alone determines the
            batches.
        shuffle: bool. Whether rows and batches are shuffled. Without, rows
            stand in their order and short batches come first.

    Returns:
        List of `(rows, padded_length)`; `rows` is an `int64` array of row
        numbers of shape `(batch_size,)`, or shorter for one batch.

    >>> for rows, length in epoch_batches(
    ...     np.array([2, 9, 3, 3, 9]), (3, 9), 2, seed=0, epoch=0, shuffle=False
    ... ):
    ...     print(rows, length)
    [0 2] 3
    [3 1] 9
    [4] 9
    """
    if batch_size < 1:
        raise UsageError(
            "`batch_size` must be at least 1. "
            f"Received: batch_size={batch_size}."
        )
    if len(lengths) and lengths.max() > boundaries[-1]:
        raise UsageError(
            "The last boundary must hold the longest row. "
            f"Received: boundaries={tuple(boundaries)}, "
            f"longest row={lengths.max()}."
        )
    generator = np.random.default_rng([seed, epoch])
    buckets = np.searchsorted(boundaries, lengths)
    batches = []
    left_over = np.empty(0, "int64")
    for bucket, boundary in enumerate(boundaries):
        rows = np.flatnonzero(buckets == bucket)
        rows = np.concatenate([left_over, rows])
        if shuffle:
            generator.shuffle(rows)
        num_full = len(rows) // batch_size * batch_size
        full, left_over = rows[:num_full], rows[num_full:]
        batches += [
            (batch, int(boundary)) for batch in full.reshape(-1, batch_size)
        ]
    if len(left_over):
        batches.append((left_over, int(boundaries[-1])))
    if shuffle:
        order = generator.permutation(len(batches))
        batches = [batches[index] for index in order]
    return batches
