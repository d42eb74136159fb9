"""Encoded examples to padded batches: buckets, replicas, prefetch, parts."""

import dataclasses
import itertools
from collections.abc import Sequence

import keras
import numpy as np

from kdkit.backends import tf
from kdkit.data.encoding import INPUT_NAMES
from kdkit.data.encoding import EncodedExamples
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


BATCHES_AHEAD = 4


def made_ahead(batches, count: int = BATCHES_AHEAD):
    """Returns a data set whose next batches are made in the background.

    How many is not left to TensorFlow to tune: the thread that tunes looks at
    its data set 10 ms after the first batch, then after twice that, up to once
    a minute, and the end of an iterator, which is that of a `fit`, may wait for
    its next look.

    Args:
        batches: `tf.data.Dataset`.
        count: int. How many are made ahead. Defaults to `4`.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(count).with_options(options)


def for_any_shape(function):
    """Returns a function of a batch, traced at its first call.

    The padded lengths of the batches differ; without this, each would be traced
    anew.

    Args:
        function: callable of a dict of tensors.

    Returns:
        A callable of dicts of tensors of the same names, dtypes and ranks.
    """
    traced = []

    def run(batch):
        if not traced:
            signature = keras.tree.map_structure(
                lambda tensor: tf.TensorSpec(
                    [None] * len(tensor.shape), tensor.dtype
                ),
                batch,
            )
            traced.append(tf.function(function, input_signature=[signature]))
        return traced[0](batch)

    return run


BATCH_BYTES = 256_000_000  # of features, where nobody chose the rows of a batch


def training_batches(
    encoded: EncodedExamples,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    num_buckets: int | None = 8,
    input_names: tuple[str, ...] = INPUT_NAMES,
    rows_of_epoch=None,
    features=None,
    shares: Shares = WHOLE,
    first_step: int = 0,
) -> "tuple[tf.data.Dataset, int]":
    """Returns endless shuffled batches of similar lengths.

    Args:
        encoded: `EncodedExamples`.
        batch_size: int. Rows of a batch.
        seed: int. Seed of the order.
        first_epoch: int. Epoch to begin with, from 0. The batches of an epoch
            do not depend on it, so training can go on where it stopped.
        num_buckets: int or `None`. Number of different padded lengths; each is
            one program for XLA. `None` to pad every batch to the rows'
            `sequence_length`. Defaults to 8.
        input_names: names of the inputs that the model takes.
        rows_of_epoch: callable from the number of an epoch to the numbers of
            its rows, as many in each, or `None` for all of them. Defaults to
            `None`.
        features: callable from `encoded` to what makes further features of
            batches: a `signature`, a dict of what `tf.data` calls a spec, and
            when called with the numbers of rows and the padded length a dict
            of arrays; `row_bytes` of a padded length, how large they are for
            one row. Defaults to `None`.
        shares: `Shares`. Where replicas train on several devices: the elements
            are shares of batches, and only these rows are read. Defaults to
            whole batches.
        first_step: int. How many batches of the first epoch to leave out,
            whose rows are not read. Defaults to `0`.

    Returns:
        Tuple of a `tf.data.Dataset`, one epoch after the other without end,
        and the number of batches in an epoch. Its elements are `(x, y)`, or
        `x` where there are no labels; `x` is a dict of `int32` tensors of
        shape `(batch, length)`, `y` of shape `(batch,)`. Rows of several
        sequences, as questions with options are, stand one sequence below the
        other in `x`, of shape `(batch * sequences_per_row, length)`. Where
        positions have labels, the elements are `(x, y, sample_weight)`, `y`
        and `sample_weight` of shape `(batch, length)`; weights are 0 where
        there is no label. Of rows with label weights `x` holds these too, as
        `label_weight` of shape `(batch,)`.
    """
    _check_input_names(input_names)
    boundaries = bucket_boundaries(
        encoded.row_lengths, num_buckets, encoded.sequence_length
    )

    def batches_of(epoch):
        rows = np.arange(len(encoded))
        if rows_of_epoch is not None:
            rows = rows_of_epoch(epoch)
        return [
            (rows[batch], length)
            for batch, length in epoch_batches(
                encoded.row_lengths[rows], boundaries, batch_size, seed, epoch
            )
        ]

    def batches_without_end():
        yield from batches_of(first_epoch)[first_step:]
        for epoch in itertools.count(first_epoch + 1):
            yield from batches_of(epoch)

    steps_per_epoch = len(batches_of(first_epoch))
    padder = Padder(encoded, input_names, features and features(encoded))
    dataset = _padded_batches(padder, batches_without_end, shares)
    cardinality = tf.data.experimental.INFINITE_CARDINALITY
    return _with_cardinality(dataset, cardinality), steps_per_epoch


def evaluation_batches(
    encoded: EncodedExamples,
    batch_size: int,
    num_buckets: int | None = 8,
    input_names: tuple[str, ...] = INPUT_NAMES,
    features=None,
    shares: Shares = WHOLE,
) -> "tuple[tf.data.Dataset, np.ndarray]":
    """Returns every row once, in batches of similar lengths.

    Args:
        encoded: `EncodedExamples`.
        batch_size: int. Rows of a batch; fewer where their features would be
            more than 256 MB.
        num_buckets: int or `None`, as in `training_batches`. Defaults to 8.
        input_names: names of the inputs that the model takes.
        features, shares: as in `training_batches`.

    Returns:
        Tuple of a finite `tf.data.Dataset` as in `training_batches` and the
        row numbers in the order of its rows. Results are put into the order of
        the rows by `in_row_order[row_numbers] = results`.
    """
    _check_input_names(input_names)
    boundaries = bucket_boundaries(
        encoded.row_lengths, num_buckets, encoded.sequence_length
    )
    padder = Padder(encoded, input_names, features and features(encoded))
    batches = epoch_batches(
        encoded.row_lengths,
        boundaries,
        rows_within(padder.feature_bytes(boundaries[-1]), batch_size),
        seed=0,
        epoch=0,
        shuffle=False,
    )
    dataset = _padded_batches(padder, lambda: iter(batches), shares)
    row_numbers = np.concatenate([rows for rows, _ in batches])
    num_shares = shares.num_shares(len(batches))
    return _with_cardinality(dataset, num_shares), row_numbers


def rows_within(row_bytes: int, most: int) -> int:
    """Returns how many rows a batch has: at least one, 256 MB at most.

    Args:
        row_bytes: int. Bytes of what comes with one row.
        most: int. Rows of a batch at most.

    >>> rows_within(50_000_000, 64), rows_within(1, 64), rows_within(10**9, 64)
    (5, 64, 1)
    """
    return max(1, min(most, BATCH_BYTES // max(row_bytes, 1)))


def _padded_batches(padder, generate, shares):
    def batches():
        for rows, padded_length in generate():
            for share in shares.of_rows(rows):
                yield padder(share, padded_length)

    # Features may be many times as large as what they stand beside.
    count = 1 if padder.has_features else BATCHES_AHEAD
    return made_ahead(
        tf.data.Dataset.from_generator(
            batches, output_signature=padder.signature
        ),
        count,
    )


class Padder:
    """Makes a batch of some rows, all of one length.

    Only what a batch has is read of rows that are mapped from a file.

    Args:
        encoded: `EncodedExamples`.
        input_names: names of the inputs that the model takes. Defaults to all.
        features: what makes further features, or `None`. Defaults to `None`.
    """

    def __init__(self, encoded, input_names=INPUT_NAMES, features=None):
        self._encoded = encoded
        self._features = features
        self._input_names = input_names

    def __call__(self, rows, padded_length):
        """Returns an element of the data set, as `training_batches` says."""
        encoded = self._encoded
        inputs = encoded.inputs(rows, padded_length, self._input_names)
        if encoded.label_weights is not None:
            inputs["label_weight"] = encoded.label_weights[rows]
        if self.has_features:
            inputs |= self._features(rows, padded_length)
        if encoded.labels is None:
            return inputs
        if not encoded.has_label_per_token:
            return inputs, encoded.labels[rows]
        places, real = encoded.places(rows, padded_length)
        labels = np.where(real, encoded.labels[places], -1).astype("int32")
        return inputs, np.maximum(labels, 0), (labels >= 0).astype("float32")

    @property
    def has_features(self) -> bool:
        """Whether further features come with the rows."""
        return self._features is not None

    def feature_bytes(self, padded_length: int) -> int:
        """Returns how large the further features of a row are."""
        if self._features is None:
            return 0
        return self._features.row_bytes(padded_length)

    @property
    def signature(self):
        """What a batch consists of, as `tf.data` wants it."""
        encoded = self._encoded
        by_place = tf.TensorSpec((None, None), "int32")
        inputs = dict.fromkeys(self._input_names, by_place)
        if encoded.label_weights is not None:
            inputs["label_weight"] = tf.TensorSpec((None,), "float32")
        if self._features is not None:
            inputs |= self._features.signature
        if encoded.labels is None:
            return inputs
        if encoded.has_label_per_token:
            weights = tf.TensorSpec((None, None), "float32")
            return inputs, by_place, weights
        labels = encoded.labels
        return inputs, tf.TensorSpec((None, *labels.shape[1:]), labels.dtype)


def _with_cardinality(dataset, cardinality):
    return dataset.apply(tf.data.experimental.assert_cardinality(cardinality))


def _check_input_names(input_names):
    unknown = set(input_names) - set(INPUT_NAMES)
    if unknown or "token_ids" not in input_names:
        raise UsageError(
            f"`input_names` must hold 'token_ids' and may hold {INPUT_NAMES}. "
            f"Received: input_names={tuple(input_names)}."
        )


def in_parts(batches: "tf.data.Dataset", num_parts: int) -> "tf.data.Dataset":
    """Returns every batch as so many batches of fewer rows, in their order.

    An optimiser with `gradient_accumulation_steps=num_parts` makes one update
    of each, from the mean of the gradients of the parts.

    Args:
        batches: endless `tf.data.Dataset` as `training_batches` makes it. The
            first axis of its tensors are rows, or as many sequences for each
            row.
        num_parts: int. Parts of a batch. They differ by one row at most; of a
            batch with fewer rows than parts some rows come again, so that no
            part is empty.
    """

    def parts_of(*batch):
        batch = batch if len(batch) > 1 else batch[0]
        num_rows = tf.reduce_min(
            [tf.shape(tensor)[0] for tensor in tf.nest.flatten(batch)]
        )

        def part(number):
            start = number * num_rows // num_parts
            end = tf.maximum((number + 1) * num_rows // num_parts, start + 1)

            def rows(tensor):
                per_row = tf.shape(tensor)[0] // num_rows
                return tensor[start * per_row : end * per_row]

            return tf.nest.map_structure(rows, batch)

        return tf.data.Dataset.range(num_parts, output_type="int32").map(part)

    return made_ahead(
        batches.flat_map(parts_of).apply(
            tf.data.experimental.assert_cardinality(
                tf.data.experimental.INFINITE_CARDINALITY
            )
        )
    )
