"""Sentences to token ids."""

import dataclasses
import functools
from collections.abc import Iterable
from collections.abc import Iterator

import numpy as np

from kdkit.data.encoding import ReadableRows
from kdkit.data.encoding import make_tokenize
from kdkit.errors import UsageError

NUM_SPECIAL = 2  # the language before a sentence, the end behind it


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Token ids of sentences, one after the other, without padding.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`. Each sentence is
            the token of its language, its own tokens and `</s>`.
        lengths: `int32` array of shape `(num_sentences,)`.
        num_truncated: int. How many were cut.
        pad_token_id: int. Id that fills the rows of a batch to one length.
    """

    token_ids: np.ndarray
    lengths: np.ndarray
    num_truncated: int
    pad_token_id: int

    def __len__(self):
        return len(self.lengths)

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Where each sentence ends in `token_ids`."""
        return np.cumsum(self.lengths, dtype="int64")

    def sentences(self) -> Iterator[np.ndarray]:
        """Yields the token ids of every sentence."""
        ends = self.ends
        for start, end in zip(
            (ends - self.lengths).tolist(), ends.tolist(), strict=True
        ):
            yield self.token_ids[start:end]

    def padded(self, rows: np.ndarray) -> np.ndarray:
        """Returns some sentences, padded to the longest of them.

        Args:
            rows: int array of shape `(num_rows,)`. Their numbers.

        Returns:
            `int32` array of shape `(num_rows, longest)`.
        """
        lengths = self.lengths[rows]
        starts = self.ends[rows] - lengths
        places = np.arange(lengths.max())
        real = places < lengths[:, np.newaxis]
        where = np.where(real, starts[:, np.newaxis] + places, 0)
        return np.where(real, self.token_ids[where], self.pad_token_id)


def encode_sentences(
    texts: Iterable[str],
    tokenizer,
    sequence_length: int,
    language: str | None = None,
) -> EncodedSentences:
    """Tokenizes sentences of one language.

    Args:
        texts: iterable of strings.
        tokenizer: `kdkit.models.MassTokenizer`.
        sequence_length: int. Tokens of a sentence at most, special ones
            included; longer ones are cut before their `</s>`.
        language: string or `None`. Whose token stands before them; `<s>` for
            `None`. Defaults to `None`.

    Returns:
        `EncodedSentences`.

    Raises:
        UsageError: (a `ValueError`) if there are no texts, one is empty, there
            is no room for them, or the language has no token.
    """
    if sequence_length <= NUM_SPECIAL:
        raise UsageError(
            "`sequence_length` must leave room for text beside the "
            f"{NUM_SPECIAL} special tokens. Received: "
            f"sequence_length={sequence_length}."
        )
    texts = list(texts)
    if not texts:
        raise UsageError("There is no text to encode. Received: no sentences.")
    first = tokenizer.language_token_id(language)
    pieces = make_tokenize(tokenizer)(texts)
    empty = [
        number for number, text in enumerate(texts, 1) if not len(pieces[text])
    ]
    if empty:
        raise UsageError(
            "A sentence has a token or more. Received: an empty one, number "
            f"{empty[0]}. Leave it out."
        )
    room = sequence_length - NUM_SPECIAL
    sentences = [
        np.concatenate([[first], pieces[text][:room], [tokenizer.end_token_id]])
        for text in texts
    ]
    return EncodedSentences(
        np.concatenate(sentences).astype("int32"),
        np.array([len(one) for one in sentences], "int32"),
        sum(len(pieces[text]) > room for text in texts),
        tokenizer.pad_token_id,
    )


def join_sentences(*parts: EncodedSentences) -> EncodedSentences:
    """Returns sentences of several languages as one corpus.

    Args:
        parts: `EncodedSentences` of one vocabulary.
    """
    return EncodedSentences(
        np.concatenate([part.token_ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        sum(part.num_truncated for part in parts),
        parts[0].pad_token_id,
    )


class PairRows(ReadableRows):
    """Pairs of sentences: their positions are those of the decoder.

    Args:
        sources: `EncodedSentences`.
        targets: `EncodedSentences`, as many.
    """

    def __init__(self, sources: EncodedSentences, targets: EncodedSentences):
        self._sides = sources, targets
        self.lengths = targets.lengths - 1  # the end is never read
        self.sequence_length = int(self.lengths.max())

    def contents(self):
        sources, targets = (side.sentences() for side in self._sides)
        for source, target in zip(sources, targets, strict=True):
            # So that what ends one side cannot begin the other.
            yield np.array([len(source)], "int32"), source, target

    def inputs(self, rows, padded_length):
        inputs, _, _ = pair_batch(*self._sides, rows)
        return inputs


def pair_batch(
    sources: EncodedSentences, targets: EncodedSentences, rows: np.ndarray
) -> tuple:
    """Returns some pairs as arrays `(x, y, sample_weight)`.

    Args:
        sources, targets: as in `pair_batches`.
        rows: int array. The numbers of the pairs.
    """
    source, target = sources.padded(rows), targets.padded(rows)
    before, y = target[:, :-1], target[:, 1:]
    real = y != targets.pad_token_id
    places = np.broadcast_to(np.arange(y.shape[1], dtype="int32"), y.shape)
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": (source != sources.pad_token_id).astype(
            "int32"
        ),
        # The end of a target is predicted and never read.
        "decoder_token_ids": np.where(real, before, targets.pad_token_id),
        "decoder_padding_mask": real.astype("int32"),
        "decoder_positions": np.where(real, places, 0),
    }
    return x, y, real.astype("float32")
