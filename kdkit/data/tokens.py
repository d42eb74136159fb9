"""Sentences with a label for some or all of their words."""

import dataclasses
from typing import ClassVar

import keras_hub
import numpy as np

from kdkit.data.encoding import EncodedExamples
from kdkit.data.encoding import tokenize
from kdkit.errors import UsageError

NO_LABEL = -1  # of words that are not asked for, and of further word pieces
UNKNOWN = -2  # of words whose label the model has no class for: never right
CUT_OFF = -5  # less a label: the same label, of a word that was cut off
NUM_SPECIAL = 2  # [CLS] and [SEP]


@dataclasses.dataclass(frozen=True, eq=False)
class TokenExamples:
    """Sentences as words, with labels.

    Args:
        words: list of tuples of strings, one tuple per sentence.
        labels: list of `int32` arrays of shape `(num_words,)`, one per
            sentence: class numbers, `NO_LABEL` or `UNKNOWN`; or `None`.

    Raises:
        UsageError: if a sentence has no words, or another number of labels
            than words.

    >>> rows = TokenExamples([("no", "rain")], [np.array([0, 1])])
    >>> len(rows)
    1
    """

    words: list[tuple[str, ...]]
    labels: list[np.ndarray] | None = None

    def __post_init__(self):
        labels = self.words if self.labels is None else self.labels
        counts = [len(row) for row in self.words]
        if not counts or 0 in counts or counts != [len(row) for row in labels]:
            raise UsageError(
                "Sentences need words and one label for each. Received: "
                f"{len(self.words)} sentences of {counts[:5]}... words and "
                f"{len(labels)} rows of {[len(row) for row in labels[:5]]}... "
                "labels."
            )

    def __len__(self):
        return len(self.words)

    def take(self, rows) -> "TokenExamples":
        """Returns the rows with the given numbers, in the given order."""
        labels = self.labels
        return TokenExamples(
            [self.words[row] for row in rows],
            None if labels is None else [labels[row] for row in rows],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedTokens(EncodedExamples):
    """Token ids with a label for some of the positions.

    `labels` is an `int32` array of the shape of `token_ids`: the class number
    of a word at its first piece, `UNKNOWN` or `NO_LABEL`. `word_labels` is a
    list of `int32` arrays, one per row: the labels of its words in their order,
    words without one left out; `CUT_OFF` less the label for words that were cut
    off.
    """

    word_labels: list[np.ndarray] = dataclasses.field(kw_only=True)
    has_label_per_token: ClassVar[bool] = True

    @property
    def targets(self) -> list[np.ndarray]:
        """The labels of each row's words, also of those that were cut off.

        Models that read rows of different lengths are so measured on the same
        labels.
        """
        return self.word_labels

    def answers(self, outputs, rows):
        """As of other rows; words that were cut off have no answer."""
        of_rows = self._rows
        return [
            output[np.flatnonzero(of_rows[row] != NO_LABEL)]
            for output, row in zip(outputs, rows, strict=True)
        ]

    @property
    def _rows(self):
        return np.split(self.labels, np.cumsum(self.lengths)[:-1])


def was_read(labels: np.ndarray) -> np.ndarray:
    """Returns which labels are of words that were not cut off.

    Args:
        labels: int array, as in `EncodedTokens.targets`.

    >>> was_read(np.array([2, CUT_OFF - 2, UNKNOWN])).tolist()
    [True, False, True]
    """
    return labels >= UNKNOWN


def as_given(labels: np.ndarray) -> np.ndarray:
    """Returns the labels, whether their words were cut off or not.

    Args:
        labels: int array, as in `EncodedTokens.targets`.

    >>> as_given(np.array([2, CUT_OFF - 2, CUT_OFF - UNKNOWN])).tolist()
    [2, 2, -2]
    """
    return np.where(was_read(labels), labels, CUT_OFF - labels)


def encode_tokens(
    examples: TokenExamples, tokenizer, sequence_length: int
) -> EncodedTokens:
    """Tokenises sentences word by word: `[CLS] words [SEP]`.

    A word's label stands at its first piece. A word that the tokenizer makes
    nothing of becomes `[UNK]`. Of a sentence that is too long, the part around
    its first label is kept, or the beginning where that is near it.

    Args:
        examples: `TokenExamples` with labels.
        tokenizer: as in `encode`. For single characters as words its
            vocabulary holds characters, see `character_vocabulary`.
        sequence_length: int. Tokens of a row at most, special ones included.

    Returns:
        `EncodedTokens`. Words that were cut off count in metrics alone, where
        what is said of them is never right but for the tag `O`.

    Raises:
        UsageError: if there is no room for text.
    """
    room = sequence_length - NUM_SPECIAL
    if room < 1:
        raise UsageError(
            "`sequence_length` must leave room for text beside the "
            f"{NUM_SPECIAL} special tokens. "
            f"Received: sequence_length={sequence_length}."
        )
    texts = [_as_in_text(words, tokenizer) for words in examples.words]
    pieces = tokenize((word for words in texts for word in words), tokenizer)
    token_ids, labels, lengths, num_truncated = [], [], [], 0
    targets = []
    for words, word_labels in zip(texts, examples.labels, strict=True):
        of_words = [
            pieces[word] if len(pieces[word]) else _unknown(word, tokenizer)
            for word in words
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
            row = row[begin : begin + room]
            row_labels = row_labels[begin : begin + room]
        kept = (begin <= starts) & (starts < begin + room)
        given = np.where(kept, word_labels, CUT_OFF - np.array(word_labels))
        targets.append(given[np.array(word_labels) != NO_LABEL])
        token_ids += [[tokenizer.start_token_id], row, [tokenizer.end_token_id]]
        labels += [[NO_LABEL], row_labels, [NO_LABEL]]
        lengths.append(len(row) + NUM_SPECIAL)
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
    """The words with the blanks that byte pairs are told apart by."""
    if not isinstance(tokenizer, keras_hub.tokenizers.BytePairTokenizer):
        return words
    return [f" {word}" if place else word for place, word in enumerate(words)]


def _unknown(word, tokenizer):
    """The id of a word that the tokenizer makes nothing of."""
    if not hasattr(tokenizer, "oov_token"):
        raise UsageError(
            f"A {type(tokenizer).__name__} makes nothing of the word {word!r}, "
            "and has no piece for the unknown. Leave the word out of the data."
        )
    return np.array([tokenizer.token_to_id(tokenizer.oov_token)], "int32")
