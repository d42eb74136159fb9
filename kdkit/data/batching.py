"""Encoded rows to padded batches for Keras."""

import itertools

import numpy as np

from kdkit.backends import tf
from kdkit.data.ahead import BATCHES_AHEAD
from kdkit.data.ahead import made_ahead
from kdkit.data.bucketing import bucket_boundaries
from kdkit.data.bucketing import epoch_batches
from kdkit.data.encoding import INPUT_NAMES
from kdkit.data.encoding import EncodedExamples
from kdkit.data.shares import WHOLE
from kdkit.data.shares import Shares
from kdkit.errors import UsageError

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
