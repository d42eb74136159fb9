"""Texts to token ids, kept in memory without padding."""

import dataclasses

import keras_hub
import numpy as np
import tensorflow as tf

from kdkit.data.examples import Examples
from kdkit.errors import UsageError

ROWS_PER_STEP = 1024  # tokenised together


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedExamples:
    """Token ids of all rows, one row after the other.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`.
        segment_ids: `int32` array of the same shape: 0 for the first sentence
            with `[CLS]` and its `[SEP]`, 1 for the second with its `[SEP]`.
        lengths: `int32` array of shape `(num_rows,)`: tokens of every row.
        labels: as in `Examples`.
        sequence_length: int. No row is longer; longer ones were cut.
        num_truncated: int. How many rows were cut.
        pad_token_id: int. Id that fills rows of a batch to one length.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray | None
    sequence_length: int
    num_truncated: int
    pad_token_id: int

    def __len__(self):
        return len(self.lengths)

    def row(self, number: int) -> np.ndarray:
        """Returns the token ids of one row."""
        start = int(self.lengths[:number].sum())
        return self.token_ids[start : start + self.lengths[number]]


def encode(
    examples: Examples, tokenizer, sequence_length: int
) -> EncodedExamples:
    """Tokenises and packs examples as BERT reads them.

    `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`. Rows that are too
    long are cut as keras-hub's preprocessors do: the room is given to the
    sentences one token at a time in turn, so that the longer one is cut first.

    Args:
        examples: `Examples`.
        tokenizer: `keras_hub.models.BertTokenizer`, or another with
            `start_token_id`, `end_token_id` and `pad_token_id`.
        sequence_length: int. Tokens of a row at most, special ones included.

    Returns:
        `EncodedExamples`.
    """
    num_special = len(examples.texts) + 1
    if sequence_length <= num_special:
        raise UsageError(
            "`sequence_length` must leave room for text beside the "
            f"{num_special} special tokens. "
            f"Received: sequence_length={sequence_length}."
        )
    packer = keras_hub.layers.MultiSegmentPacker(
        sequence_length=sequence_length,
        start_value=tokenizer.start_token_id,
        end_value=tokenizer.end_token_id,
        pad_value=tokenizer.pad_token_id,
        truncate="round_robin",
    )

    def encode_rows(*texts):
        segments = tuple(tokenizer(column) for column in texts)
        token_ids, segment_ids = packer(segments)
        full_lengths = num_special + sum(
            tf.cast(segment.row_lengths(), "int32") for segment in segments
        )
        lengths = tf.minimum(full_lengths, sequence_length)
        real = tf.sequence_mask(lengths, sequence_length)
        return {
            "token_ids": tf.boolean_mask(token_ids, real),
            "segment_ids": tf.boolean_mask(segment_ids, real),
            "lengths": lengths,
            "truncated": full_lengths > sequence_length,
        }

    dataset = (
        tf.data.Dataset.from_tensor_slices(examples.texts)
        .batch(ROWS_PER_STEP)
        .map(encode_rows, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    steps = list(dataset.as_numpy_iterator())
    columns = {
        name: np.concatenate([step[name] for step in steps])
        for name in steps[0]
    }
    return EncodedExamples(
        token_ids=columns["token_ids"],
        segment_ids=columns["segment_ids"],
        lengths=columns["lengths"],
        labels=examples.labels,
        sequence_length=sequence_length,
        num_truncated=int(columns["truncated"].sum()),
        pad_token_id=tokenizer.pad_token_id,
    )
