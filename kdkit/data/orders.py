"""Orders of batches: the examples in each batch of an epoch.

An order is a pure function of seed and epoch. `BatchStream` takes `Buckets`,
`FullBatches` or `TokenBatches`.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

# Replaces an epoch's number: every example once, always in the same batches.
EVALUATION = -1


@dataclasses.dataclass(frozen=True)
class Buckets:
    """Batches of a fixed number of examples of similar lengths.

    A batch contains examples of one bucket, in random order. Examples that do
    not fill a batch move to the next longer bucket, so at most one batch has
    fewer than `batch_size` examples. Every example occurs once, and every epoch
    has the same number of batches of each shape. In an evaluation, examples
    keep their order and short batches come first.

    Args:
        batch_size: int. Examples per batch.
        num_buckets: int or `None`. The number of different padded lengths; XLA
            compiles one program for each. `None` pads every batch to the
            `sequence_length` of the examples. Defaults to 8.
        rows_of_epoch: callable from seed and epoch to the numbers of the
            epoch's examples, the same number in each epoch, or `None` for all
            examples. Evaluation always uses all examples. Defaults to `None`.
    """

    batch_size: int
    num_buckets: int | None = 8
    rows_of_epoch: Callable[[int, int], np.ndarray] | None = None

    def order(self, examples):
        """Returns a function from seed and epoch to batches.

        Args:
            examples: `SequenceDataset`.

        Returns:
            Callable that returns a list of tuples: an int array, the numbers of
            a batch's examples, and the length that they are padded to.
        """
        lengths = examples.row_lengths
        boundaries = (examples.sequence_length,)
        if self.num_buckets is not None:
            boundaries = bucket_boundaries(lengths, self.num_buckets)
        bucket_of = np.searchsorted(boundaries[:-1], lengths)

        def batches(seed, epoch):
            is_training = epoch != EVALUATION
            rows = np.arange(len(lengths))
            if is_training and self.rows_of_epoch is not None:
                rows = self.rows_of_epoch(seed, epoch)
            generator = np.random.default_rng([seed, max(epoch, 0)])
            found = []
            left_over = rows[:0]
            for bucket, boundary in enumerate(boundaries):
                inside = rows[bucket_of[rows] == bucket]
                inside = np.concatenate([left_over, inside])
                if is_training:
                    generator.shuffle(inside)
                num_full = len(inside) // self.batch_size * self.batch_size
                full, left_over = inside[:num_full], inside[num_full:]
                full = full.reshape(-1, self.batch_size)
                found += [(batch, boundary) for batch in full]
            if len(left_over):
                found.append((left_over, boundaries[-1]))
            if is_training:
                order = generator.permutation(len(found))
                found = [found[index] for index in order]
            return found

        return batches


@dataclasses.dataclass(frozen=True)
class FullBatches:
    """Batches of one shape, for sequences that all have the same length.

    Training leaves out the examples that do not fill the last batch, different
    ones in every epoch. The last batch of an evaluation may be smaller.

    Args:
        batch_size: int. Examples per batch; all examples if there are fewer.
    """

    batch_size: int

    def order(self, examples):
        """Returns a function from seed and epoch to batches.

        Args:
            examples: as in `Buckets.order`, as is the result.
        """
        count, length = len(examples), examples.sequence_length
        size = min(self.batch_size, count)

        def batches(seed, epoch):
            rows = np.arange(count)
            if epoch != EVALUATION:
                rows = np.random.default_rng([seed, epoch]).permutation(count)
                rows = rows[: count // size * size]
            return [
                (rows[begin : begin + size], length)
                for begin in range(0, len(rows), size)
            ]

        return batches


@dataclasses.dataclass(frozen=True)
class TokenBatches:
    """Batches of about the same number of tokens, as in `token_batches`.

    Args:
        max_tokens: int. The largest number of tokens in a batch, padding
            included.
    """

    max_tokens: int

    def order(self, examples):
        """Returns a function from seed and epoch to batches.

        Args:
            examples: as in `Buckets.order`, as is the result.
        """
        sides = examples.sides
        cuts = _cuts(sides, self.max_tokens)

        def batches(seed, epoch):
            if epoch == EVALUATION:
                seed = epoch = 0
            return [
                (rows, int(examples.lengths[rows].max()))
                for rows in _drawn(sides, cuts, seed, epoch)
            ]

        return batches


def bucket_boundaries(lengths: np.ndarray, num_buckets: int) -> tuple[int, ...]:
    """Returns the padded lengths that waste the fewest tokens.

    At most `num_buckets` lengths are chosen, and every sequence is padded to
    the smallest length that is long enough. Dynamic programming over the
    occurring lengths finds a choice with the fewest padding tokens.

    Args:
        lengths: int array of shape `(num_rows,)`.
        num_buckets: int. The largest number of padded lengths.

    Returns:
        Tuple of lengths in rising order. The last is the longest sequence's.

    >>> bucket_boundaries(np.array([2, 3, 3, 9, 10]), num_buckets=2)
    (3, 10)
    """
    sizes, counts = np.unique(lengths, return_counts=True)
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


REAL_SHARE = 0.8  # least share of a batch's tokens that are not padding


def token_batches(
    lengths: Sequence[np.ndarray], max_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Returns batches of similar lengths with about the same number of tokens.

    Examples are sorted by length, in random order for equal lengths. A batch
    ends before it would have more than `max_tokens` tokens including padding,
    or more than a fifth of padding. The batches are shuffled. Every epoch has
    the same number of batches with the same numbers of examples.

    Args:
        lengths: sequence of int arrays of shape `(num_rows,)`, one for each
            side, such as source and target: the tokens of each example.
        max_tokens: int. The largest number of tokens in a batch, for all sides
            together, padding included. A longer example has its own batch.
        seed: int. Seed of the order.
        epoch: int. From 0.

    Returns:
        List of int arrays, the numbers of each batch's examples.

    >>> token_batches([np.array([2, 9, 2, 8])], max_tokens=18, seed=0, epoch=0)
    [array([3, 1]), array([2, 0])]
    """
    return _drawn(lengths, _cuts(lengths, max_tokens), seed, epoch)


def _cuts(lengths, max_tokens):
    """The ends of the batches in the order of lengths, for every epoch."""
    rows = np.stack(lengths, axis=1)[_by_length(lengths)].tolist()
    cuts, begin = [], 0
    longest = [0] * len(lengths)
    real = 0
    for end, sides in enumerate(rows):
        with_row = list(map(max, longest, sides))
        padded = sum(with_row) * (end - begin + 1)
        real += sum(sides)
        if end > begin and (padded > max_tokens or real < REAL_SHARE * padded):
            cuts.append(end)
            begin, with_row, real = end, sides, sum(sides)
        longest = with_row
    return cuts


def _drawn(lengths, cuts, seed, epoch):
    """The batches of an epoch, as `token_batches` returns them."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths[0]))
    order = order[_by_length([side[order] for side in lengths])]
    batches = np.split(order, cuts)
    return [batches[number] for number in rng.permutation(len(batches))]


def _by_length(lengths):
    """The order of examples by their first side, then by the others."""
    return np.lexsort(lengths[::-1])  # lexsort's last key is the first
