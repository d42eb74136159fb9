"""Encoded rows to padded batches for Keras."""

import itertools

import numpy as np
import tensorflow as tf

from kdkit.data.bucketing import bucket_boundaries
from kdkit.data.bucketing import epoch_batches
from kdkit.data.encoding import EncodedExamples
from kdkit.errors import UsageError

INPUT_NAMES = ("token_ids", "segment_ids", "padding_mask")


def training_batches(
    encoded: EncodedExamples,
    batch_size: int,
    seed: int,
    first_epoch: int = 0,
    num_buckets: int = 8,
    drop_remainder: bool = False,
    input_names: tuple[str, ...] = INPUT_NAMES,
    rows_of_epoch=None,
) -> tuple[tf.data.Dataset, int]:
    """Returns endless shuffled batches of similar lengths.

    Args:
        encoded: `EncodedExamples`.
        batch_size: int. Rows of a batch.
        seed: int. Seed of the order.
        first_epoch: int. Epoch to begin with, from 0. The batches of an epoch
            do not depend on it, so training can go on where it stopped.
        num_buckets: int. Number of different padded lengths; each is one
            program for XLA. Defaults to 8.
        drop_remainder: bool. Whether to leave out the one batch of an epoch
            that is not full, which costs XLA one more program.
        input_names: names of the inputs that the model takes.
        rows_of_epoch: callable from the number of an epoch to the numbers of
            its rows, as many in each, or `None` for all of them. Defaults to
            `None`.

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
        batches = [
            (rows[batch], length)
            for batch, length in epoch_batches(
                encoded.row_lengths[rows], boundaries, batch_size, seed, epoch
            )
        ]
        if drop_remainder:
            batches = [
                batch for batch in batches if len(batch[0]) == batch_size
            ]
        return batches

    def batches_without_end():
        for epoch in itertools.count(first_epoch):
            yield from batches_of(epoch)

    steps_per_epoch = len(batches_of(first_epoch))
    if not steps_per_epoch:
        raise UsageError(
            "`drop_remainder=True` leaves no batch. Received: "
            f"{len(encoded)} rows, batch_size={batch_size}. "
            "Use a smaller `batch_size`."
        )
    dataset = _padded_batches(encoded, batches_without_end, input_names)
    cardinality = tf.data.experimental.INFINITE_CARDINALITY
    return _with_cardinality(dataset, cardinality), steps_per_epoch


def evaluation_batches(
    encoded: EncodedExamples,
    batch_size: int,
    num_buckets: int = 8,
    input_names: tuple[str, ...] = INPUT_NAMES,
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Returns every row once, in batches of similar lengths.

    Args:
        encoded: `EncodedExamples`.
        batch_size: int. Rows of a batch.
        num_buckets: int. Number of different padded lengths. Defaults to 8.
        input_names: names of the inputs that the model takes.

    Returns:
        Tuple of a finite `tf.data.Dataset` as in `training_batches` and the
        row numbers in the order of its rows. Results are put into the order of
        the rows by `in_row_order[row_numbers] = results`.
    """
    _check_input_names(input_names)
    boundaries = bucket_boundaries(
        encoded.row_lengths, num_buckets, encoded.sequence_length
    )
    batches = epoch_batches(
        encoded.row_lengths,
        boundaries,
        batch_size,
        seed=0,
        epoch=0,
        shuffle=False,
    )
    dataset = _padded_batches(encoded, lambda: iter(batches), input_names)
    row_numbers = np.concatenate([rows for rows, _ in batches])
    return _with_cardinality(dataset, len(batches)), row_numbers


def _padded_batches(encoded, generate, input_names):
    lengths = tf.constant(encoded.lengths)
    columns = {"token_ids": (encoded.token_ids, encoded.pad_token_id)}
    if "segment_ids" in input_names:
        columns["segment_ids"] = (encoded.segment_ids, 0)
    ragged = {
        name: (tf.RaggedTensor.from_row_lengths(values, lengths), filler)
        for name, (values, filler) in columns.items()
    }
    pick_labels = _label_picker(encoded, lengths)

    def gather(rows, padded_length):
        sequences = _sequences(rows, encoded.sequences_per_row)
        inputs = {
            name: tf.gather(values, sequences).to_tensor(
                default_value=filler, shape=tf.stack([-1, padded_length])
            )
            for name, (values, filler) in ragged.items()
        }
        if "padding_mask" in input_names:
            inputs["padding_mask"] = tf.sequence_mask(
                tf.gather(lengths, sequences), padded_length, dtype="int32"
            )
        inputs = {name: inputs[name] for name in input_names}
        if encoded.label_weights is not None:
            inputs["label_weight"] = tf.gather(encoded.label_weights, rows)
        if encoded.labels is None:
            return inputs
        return inputs, *pick_labels(rows, padded_length)

    indices = tf.data.Dataset.from_generator(
        generate,
        output_signature=(
            tf.TensorSpec((None,), "int64"),
            tf.TensorSpec((), "int32"),
        ),
    )
    return indices.map(gather, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
        tf.data.AUTOTUNE
    )


def _sequences(rows, sequences_per_row):
    """The numbers of the sequences of rows, one row after the other."""
    if sequences_per_row == 1:
        return rows
    numbers = tf.range(sequences_per_row, dtype=rows.dtype)
    return tf.reshape(rows[:, None] * sequences_per_row + numbers, [-1])


def _label_picker(encoded, lengths):
    """A function of rows and length that returns labels and, maybe, weights."""
    if encoded.labels is None:
        return None
    if not encoded.has_label_per_token:
        labels = tf.constant(encoded.labels)
        return lambda rows, padded_length: (tf.gather(labels, rows),)
    ragged = tf.RaggedTensor.from_row_lengths(encoded.labels, lengths)

    def pick(rows, padded_length):
        labels = tf.gather(ragged, rows).to_tensor(
            default_value=-1, shape=tf.stack([-1, padded_length])
        )
        return tf.maximum(labels, 0), tf.cast(labels >= 0, "float32")

    return pick


def _with_cardinality(dataset, cardinality):
    return dataset.apply(tf.data.experimental.assert_cardinality(cardinality))


def _check_input_names(input_names):
    unknown = set(input_names) - set(INPUT_NAMES)
    if unknown or "token_ids" not in input_names:
        raise UsageError(
            f"`input_names` must hold 'token_ids' and may hold {INPUT_NAMES}. "
            f"Received: input_names={tuple(input_names)}."
        )
