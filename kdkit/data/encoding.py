"""Texts to token ids, kept in memory without padding."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import ClassVar

import keras_hub
import numpy as np

from kdkit.backends import tf
from kdkit.backends import tf_text
from kdkit.data.examples import Examples
from kdkit.data.readable_rows import ReadableRows
from kdkit.errors import UsageError
from kdkit.models.families import family_of

ROWS_PER_STEP = 1024  # tokenised together
TEXTS_PER_STEP = 16384  # likewise, without rows to be made of them
INPUT_NAMES = ("token_ids", "segment_ids", "padding_mask")


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedExamples(ReadableRows):
    """Token ids of all rows, one row after the other.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`.
        segment_ids: `int32` array of the same shape: 0 for the first sentence
            with `[CLS]` and its `[SEP]`, 1 for the second with its `[SEP]`.
            Models without segments leave them out.
        lengths: `int32` array of shape `(num_sequences,)`: tokens of every
            sequence.
        labels: as in `Examples`.
        sequence_length: int. No row is longer; longer ones were cut.
        num_truncated: int. How many rows were cut.
        pad_token_id: int. Id that fills rows of a batch to one length.
        sequences_per_row: int. How many sequences make a row: the options of
            a question. Defaults to 1.
        label_weights: `float32` array of shape `(num_rows,)`, 0 for rows whose
            label does not count, or `None` where all do. Defaults to `None`.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray | None
    sequence_length: int
    num_truncated: int
    pad_token_id: int
    sequences_per_row: int = 1
    label_weights: np.ndarray | None = None
    has_label_per_token: ClassVar[bool] = False

    def row(self, number: int) -> np.ndarray:
        """Returns the token ids of one sequence."""
        start = int(self.lengths[:number].sum())
        return self.token_ids[start : start + self.lengths[number]]

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where every sequence begins in `token_ids`."""
        return np.cumsum(self.lengths, dtype="int64") - self.lengths

    def contents(self):
        columns = [
            np.asarray(column, "int32")
            for column in (self.token_ids, self.segment_ids)
        ]
        ends = (self.starts + self.lengths).tolist()
        for start, end in zip(self.starts.tolist(), ends, strict=True):
            yield tuple(column[start:end] for column in columns)

    def inputs(
        self,
        rows: np.ndarray,
        padded_length: int,
        names: tuple[str, ...] = INPUT_NAMES,
    ) -> dict:
        """Returns what a model reads of some rows, as `int32` arrays by name.

        Args:
            rows: int array. The numbers of the rows.
            padded_length: int. The length of the batch.
            names: names of the inputs that the model takes. Defaults to all.
        """
        places, real = self.places(rows, padded_length)

        def padded(values, filler):
            return np.where(real, values[places], filler).astype("int32")

        inputs = {
            "token_ids": padded(self.token_ids, self.pad_token_id),
            "padding_mask": real.astype("int32"),
        }
        if "segment_ids" in names:
            inputs["segment_ids"] = padded(self.segment_ids, 0)
        return {name: inputs[name] for name in names}

    def places(self, rows: np.ndarray, padded_length: int) -> tuple:
        """Returns where positions stand among all tokens, and whether they do.

        Args:
            rows: int array. The numbers of the rows.
            padded_length: int. The length of the batch.

        Returns:
            Tuple of an int and a bool array of shape `(num_sequences,
            padded_length)`.
        """
        sequences = self.sequences_of(rows)
        places = np.arange(padded_length)
        real = places < self.lengths[sequences, np.newaxis]
        places = np.where(real, self.starts[sequences, np.newaxis] + places, 0)
        return places, real

    @property
    def targets(self):
        """The labels as `Task.compute_metrics` takes them."""
        return self.labels

    def answers(self, outputs: np.ndarray, rows: np.ndarray) -> list:
        """Returns what a model's outputs say of each row.

        Args:
            outputs: array whose first axis are the rows.
            rows: int array. The numbers of the rows.

        Returns:
            List of arrays of shape `(num_labels, num_classes)`.
        """
        del rows
        return list(outputs[:, np.newaxis])


def encode(
    examples: Examples, tokenizer, sequence_length: int
) -> EncodedExamples:
    """Tokenises and packs examples as the tokenizer's family reads them.

    `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`; for RoBERTa and
    XLM-RoBERTa `<s> first </s>`, or `<s> first </s></s> second </s>`. Rows
    that are too long are cut as keras-hub's preprocessors do: the room is
    given to the sentences one token at a time in turn, so that the longer one
    is cut first. A tokenizer with `truncation_side="left"` cuts the beginnings.

    Args:
        examples: `Examples`.
        tokenizer: `keras_hub.tokenizers.BertTokenizer`, or another with
            `start_token_id`, `end_token_id` and `pad_token_id`. Those of no
            family in `kdkit.models.families.FAMILIES` are packed as BERT's.
        sequence_length: int. Tokens of a row at most, special ones included.

    Returns:
        `EncodedExamples`.
    """
    rows = zip(*examples.texts, strict=True)
    steps = list(
        encoded_steps(rows, len(examples.texts), tokenizer, sequence_length)
    )
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


def encoded_steps(rows: Iterable, num_texts, tokenizer, sequence_length):
    """Yields what `encode` makes of some rows at a time.

    Args:
        rows: iterable of tuples of strings.
        num_texts: int. Strings of each.
        tokenizer, sequence_length: as in `encode`.

    Yields:
        Dict of arrays: `token_ids` and `segment_ids` of all the rows one after
        the other, `lengths` and `truncated` with one entry per row.
    """
    encode_rows = _row_encoder(tokenizer, sequence_length, num_texts)
    rows = iter(rows)
    while some := list(itertools.islice(rows, ROWS_PER_STEP)):
        columns = zip(*some, strict=True)
        step = encode_rows(*(tf.constant(column) for column in columns))
        yield {name: values.numpy() for name, values in step.items()}


@functools.lru_cache(maxsize=4)
def _row_encoder(tokenizer, sequence_length, num_texts):
    """A function of columns of text, see `encoded_steps`.

    The splits of a task share one.
    """
    family = family_of(tokenizer)
    num_separators = family.num_separators if family else 1
    num_special = 2 + num_separators * (num_texts - 1)
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
        sep_value=[tokenizer.end_token_id] * num_separators,
        pad_value=tokenizer.pad_token_id,
        truncate="round_robin",
    )

    tokenize = traced_tokenizer(tokenizer)
    side = getattr(tokenizer, "truncation_side", "right")

    @tf.function(
        input_signature=[tf.TensorSpec((None,), "string")] * num_texts,
        autograph=False,
    )
    def encode_rows(*texts):
        segments = tuple(tokenize(column) for column in texts)
        cut = segments
        if side == "left":
            cut = _without_beginnings(segments, sequence_length - num_special)
        token_ids, segment_ids = packer(cut)
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

    return encode_rows


def _without_beginnings(segments, room):
    """The ends of texts that have this many tokens together."""
    trimmer = tf_text.RoundRobinTrimmer(room)
    backwards = trimmer.trim([segment[:, ::-1] for segment in segments])
    return tuple(segment[:, ::-1] for segment in backwards)


def tokenize(texts, tokenizer) -> dict[str, np.ndarray]:
    """Tokenises every different text once.

    Args:
        texts: iterable of strings.
        tokenizer: as in `encode`.

    Returns:
        Dict from text to its token ids, without special ones.
    """
    return make_tokenize(tokenizer)(texts)


def make_tokenize(tokenizer):
    """Returns `tokenize` for one tokenizer."""
    split = traced_tokenizer(tokenizer)

    def tokenize(texts):
        texts = list(dict.fromkeys(texts))
        pieces = []
        for start in range(0, len(texts), TEXTS_PER_STEP):
            ragged = split(tf.constant(texts[start : start + TEXTS_PER_STEP]))
            ends = ragged.row_splits.numpy()[1:-1]
            pieces += np.split(ragged.values.numpy().astype("int32"), ends)
        return dict(zip(texts, pieces, strict=True))

    return tokenize


@functools.lru_cache(maxsize=4)
def traced_tokenizer(tokenizer):
    """Returns the tokenizer as one graph, from texts to ragged token ids.

    All that it tokenises shares it: tracing it takes seconds, and so would
    converting keras-hub's layers, which are graphs already.
    """
    return tf.function(
        lambda texts: tokenizer(texts),
        input_signature=[tf.TensorSpec((None,), "string")],
        autograph=False,
    )
