"""Encodes texts as token ids, in memory and without padding."""

import dataclasses
import functools

import numpy as np

from kdkit import models
from kdkit.data.stream import SequenceDataset
from kdkit.data.tables import Columns, Examples
from kdkit.errors import UsageError

ROWS_PER_STEP = 1024  # tokenized together


class JoinedTokens:
    """Token ids of sequences of different lengths, joined in one array."""

    token_ids: np.ndarray
    lengths: np.ndarray

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """The index in `token_ids` of every sequence's first token."""
        return np.cumsum(self.lengths, dtype="int64") - self.lengths

    def row(self, number: int) -> np.ndarray:
        """Returns the token ids of one sequence."""
        start = int(self.starts[number])
        return self.token_ids[start : start + self.lengths[number]]

    def places(self, sequences: np.ndarray, padded_length: int) -> tuple:
        """Returns the indices in `token_ids` of some padded sequences.

        Args:
            sequences: int array. The numbers of the sequences.
            padded_length: int. The length that they are padded to.

        Returns:
            Tuple of an int array of shape `(num_sequences, padded_length)` and
            a bool array of the same shape: whether a position has a token.
        """
        places = np.arange(padded_length)
        real = places < self.lengths[sequences, np.newaxis]
        places = np.where(real, self.starts[sequences, np.newaxis] + places, 0)
        return places, real


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedExamples(JoinedTokens, SequenceDataset):
    """Token ids of all examples, joined in one array.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`.
        segment_ids: `int32` array of the same shape: 0 for the first sentence
            with `[CLS]` and its `[SEP]`, 1 for the second with its `[SEP]`.
            Models without segments do not read them.
        lengths: `int32` array of shape `(num_sequences,)`: tokens of every
            sequence.
        labels: as in `Examples`.
        sequence_length: int. The largest length. Longer sequences were
            truncated.
        num_truncated: int. The number of truncated examples.
        pad_token_id: int. The id that pads a batch's sequences to one length.
        sequences_per_row: int. Sequences per example: the options of a
            question. Defaults to 1.
        label_weights: `float32` array of shape `(num_rows,)`, 0 for examples
            whose label does not count, or `None` if all count. Defaults to
            `None`.
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

    def contents(self):
        ends = (self.starts + self.lengths).tolist()
        for start, end in zip(self.starts.tolist(), ends, strict=True):
            yield tuple(
                np.asarray(column[start:end], "int32")
                for column in (self.token_ids, self.segment_ids)
            )

    def inputs(self, rows, padded_length):
        count = self.sequences_per_row
        sequences = rows[:, np.newaxis] * count + np.arange(count)
        places, real = self.places(sequences.ravel(), padded_length)
        return {
            name: np.where(real, values[places], filler).astype("int32")
            for name, values, filler in (
                ("token_ids", self.token_ids, self.pad_token_id),
                ("segment_ids", self.segment_ids, 0),
            )
        } | {"padding_mask": real.astype("int32")}

    def batch(self, rows, padded_length, seed):
        """Returns `x`, or `(x, y)` for examples with labels.

        `x` is a dict of `int32` arrays `token_ids`, `segment_ids` and
        `padding_mask` of shape `(batch_size * sequences_per_row,
        padded_length)`: an example's sequences are consecutive rows. With
        `label_weights`, it also has `label_weight` of shape `(batch_size,)`.
        `y` has the shape of the labels. For labels per position, the result is
        `(x, y, sample_weight)`, with `y` and `sample_weight` of shape
        `(batch_size, padded_length)`.

        Args:
            rows, padded_length, seed: as in `SequenceDataset.batch`.
        """
        inputs = self.inputs(rows, padded_length)
        if self.label_weights is not None:
            inputs["label_weight"] = self.label_weights[rows]
        if self.labels is None:
            return inputs
        return inputs, *self._labels_of(rows, padded_length)

    def _labels_of(self, rows, padded_length):
        return (self.labels[rows],)

    @property
    def targets(self):
        """Returns the labels as `Task.compute_metrics` takes them."""
        return self.labels

    def answers(self, outputs: np.ndarray, rows: np.ndarray) -> list:
        """Returns a model's outputs for the labels of each example.

        Args:
            outputs: array. Its first axis is the example.
            rows: int array. The numbers of the examples.

        Returns:
            List of arrays of shape `(num_labels, num_classes)`.
        """
        return list(outputs[:, np.newaxis])


def encode(
    examples: Examples, tokenizer, sequence_length: int | None
) -> EncodedExamples:
    """Tokenises and packs examples in the format of the tokenizer's family.

    The tokenizer puts its special tokens around the texts: `[CLS] first [SEP]`,
    or `[CLS] first [SEP] second [SEP]`; for RoBERTa and XLM-RoBERTa `<s> first
    </s>`, or `<s> first </s></s> second </s>`. Long examples are truncated as
    in transformers: of two texts the longer one first. A tokenizer whose side
    is `"left"` removes beginnings instead of ends.

    Args:
        examples: `Examples`.
        tokenizer: `kdkit.models.Tokenizer`, or keras-hub's. A static embedder's
            own puts no tokens around its texts.
        sequence_length: int. The largest number of tokens in an example,
            special tokens included. `None`, for a static embedder's own
            tokenizer, to truncate no text.

    Returns:
        `EncodedExamples`.
    """
    rows = list(zip(*examples.texts, strict=True))
    steps = [
        encode_step(
            rows[start : start + ROWS_PER_STEP], tokenizer, sequence_length
        )
        for start in range(0, len(rows), ROWS_PER_STEP)
    ]
    columns = {
        name: np.concatenate([step[name] for step in steps])
        for name in steps[0]
    }
    truncated = columns.pop("truncated")
    return EncodedExamples(
        **columns,
        labels=examples.labels,
        sequence_length=sequence_length or int(columns["lengths"].max()),
        num_truncated=int(truncated.sum()),
        pad_token_id=tokenizer.pad_token_id,
    )


def encode_step(rows, tokenizer, sequence_length) -> dict[str, np.ndarray]:
    """Encodes some rows of texts with the format of `encode`."""
    tokenizer = models.as_tokenizer(tokenizer)
    columns = tuple(zip(*rows, strict=True))
    if sequence_length is not None:
        is_pair = len(columns) > 1
        num_special = tokenizer.rust.num_special_tokens_to_add(is_pair)
        room_for_text(sequence_length, num_special)
    names = ("token_ids", "segment_ids", "lengths", "truncated")
    arrays = tokenizer.encode(columns, sequence_length)
    return dict(zip(names, arrays, strict=True))


def room_for_text(sequence_length: int, num_special: int) -> int:
    """Returns how many tokens of a sequence are not special, at least one."""
    if sequence_length <= num_special:
        raise UsageError(
            "`sequence_length` must leave room for text in addition to the "
            f"{num_special} special tokens. Received: {sequence_length}."
        )
    return sequence_length - num_special


def tokenize(texts, tokenizer) -> dict[str, np.ndarray]:
    """Tokenises every different text once."""
    texts = list(dict.fromkeys(texts))
    rows = models.as_tokenizer(tokenizer).rows(texts)
    arrays = (np.array(row, "int32") for row in rows)
    return dict(zip(texts, arrays, strict=True))


NO_LABEL = -1  # for words without a label, and a word's further pieces
UNKNOWN = -2  # for labels without a class in the model: always wrong
CUT_OFF = -5  # minus a label: the same label, for a word that was truncated
NUM_SPECIAL = 2  # [CLS] and [SEP]


@dataclasses.dataclass(frozen=True, eq=False)
class TokenExamples(Columns):
    """Sentences as words, with labels.

    Args:
        words: list of tuples of strings, one tuple per sentence.
        labels: list of `int32` arrays of shape `(num_words,)`, one per
            sentence: class numbers, `NO_LABEL` or `UNKNOWN`; or `None`.

    Raises:
        UsageError: if a sentence has not as many labels as words.

    >>> rows = TokenExamples([("no", "rain")], [np.array([0, 1])])
    >>> len(rows)
    1
    """

    words: list[tuple[str, ...]]
    labels: list[np.ndarray] | None = None

    def __post_init__(self):
        super().__post_init__()
        for words, labels in zip(self.words, self.labels or (), strict=False):
            if len(words) != len(labels):
                raise UsageError("Sentences need one label for each word.")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The words of each sentence."""
        return self.words


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedTokens(EncodedExamples):
    """Token ids with a label for some of the positions.

    `labels` is an `int32` array with the shape of `token_ids`: the class number
    of a word at its first piece, `UNKNOWN` or `NO_LABEL`. `word_labels` is a
    list of `int32` arrays, one per example: the labels of its words in order,
    without words that have none; `CUT_OFF` minus the label for truncated words.
    """

    word_labels: list[np.ndarray] = dataclasses.field(kw_only=True)

    @property
    def targets(self) -> list[np.ndarray]:
        """Returns the labels of each example's words, also of truncated words.

        Models with different sequence lengths are then measured on the same
        labels.
        """
        return self.word_labels

    def answers(self, outputs, rows):
        """Returns the outputs for the words that were not truncated."""
        of_rows = np.split(self.labels, self.starts[1:])
        return [
            output[np.flatnonzero(of_rows[row] != NO_LABEL)]
            for output, row in zip(outputs, rows, strict=True)
        ]

    def _labels_of(self, rows, padded_length):
        """Labels by position. Labels without a class have weight 0."""
        places, real = self.places(rows, padded_length)
        labels = np.where(real, self.labels[places], -1).astype("int32")
        return np.maximum(labels, 0), (labels >= 0).astype("float32")


def was_read(labels: np.ndarray) -> np.ndarray:
    """Returns which labels belong to words that were not truncated."""
    return labels >= UNKNOWN


def as_given(labels: np.ndarray) -> np.ndarray:
    """Returns the original labels, also for truncated words."""
    return np.where(was_read(labels), labels, CUT_OFF - labels)


def encode_tokens(
    examples: TokenExamples, tokenizer, sequence_length: int
) -> EncodedTokens:
    """Tokenises sentences word by word: `[CLS] words [SEP]`.

    A word's label is at its first piece. A word without any token becomes
    `[UNK]`. A long sentence is truncated to the part around its first label, or
    to its beginning if the label is near it.

    Args:
        examples: `TokenExamples` with labels.
        tokenizer: as in `encode`. If words are single characters, its
            vocabulary consists of characters.
        sequence_length: int. The largest number of tokens in an example,
            special tokens included.

    Returns:
        `EncodedTokens`. Truncated words count in metrics only, as wrong unless
        their tag is `O`.

    Raises:
        UsageError: if `sequence_length` is too small for any text.
    """
    tokenizer = models.as_tokenizer(tokenizer)
    room = room_for_text(sequence_length, NUM_SPECIAL)
    texts = [_as_in_text(words, tokenizer) for words in examples.words]
    pieces = tokenize((word for words in texts for word in words), tokenizer)
    unknown = np.array([tokenizer.unknown_token_id], "int32")
    token_ids, labels, lengths, targets = [], [], [], []
    num_truncated = 0
    for words, word_labels in zip(texts, examples.labels, strict=True):
        of_words = [
            pieces[word] if len(pieces[word]) else unknown for word in words
        ]
        row = np.concatenate(of_words)
        starts = np.cumsum([0, *map(len, of_words[:-1])])
        row_labels = np.full(len(row), NO_LABEL, "int32")
        row_labels[starts] = word_labels
        begin = 0
        if len(row) > room:
            num_truncated += 1
            first = np.append(np.flatnonzero(row_labels != NO_LABEL), 0)[0]
            begin = np.clip(first - room // 2, 0, len(row) - room)
        window = slice(begin, begin + room)
        kept = (begin <= starts) & (starts < begin + room)
        given = np.where(kept, word_labels, CUT_OFF - np.array(word_labels))
        targets.append(given[np.array(word_labels) != NO_LABEL])
        labels += [[NO_LABEL], row_labels[window], [NO_LABEL]]
        read = row[window]
        token_ids += [[tokenizer.start_token_id], read]
        token_ids.append([tokenizer.end_token_id])
        lengths.append(len(read) + NUM_SPECIAL)
    flat_ids = np.concatenate(token_ids).astype("int32")
    return EncodedTokens(
        token_ids=flat_ids,
        segment_ids=np.zeros_like(flat_ids),
        lengths=np.array(lengths, "int32"),
        labels=np.concatenate(labels).astype("int32"),
        sequence_length=sequence_length,
        num_truncated=num_truncated,
        pad_token_id=tokenizer.pad_token_id,
        word_labels=targets,
    )


def _as_in_text(words, tokenizer):
    """The words with the spaces that byte-pair tokens include."""
    if tokenizer.kind != "BPE":
        return words
    return [f" {word}" if place else word for place, word in enumerate(words)]
