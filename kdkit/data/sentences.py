"""Encodes sentences and pairs as token ids, and makes their batches."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import JoinedTokens, room_for_text, tokenize
from kdkit.data.masking import SpanMasker, traced_masker
from kdkit.data.stream import SequenceDataset
from kdkit.errors import UsageError

NUM_SPECIAL = 2  # the language token before a sentence, the end after it


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSentences(JoinedTokens):
    """Token ids of sentences, joined in one array without padding.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`. Each sentence is
            its language token, its own tokens and `</s>`.
        lengths: `int32` array of shape `(num_sentences,)`.
        num_truncated: int. The number of truncated sentences.
        pad_token_id: int. The id that pads a batch's sentences to one length.
    """

    token_ids: np.ndarray
    lengths: np.ndarray
    num_truncated: int
    pad_token_id: int

    def __len__(self):
        return len(self.lengths)

    def padded(self, rows: np.ndarray) -> np.ndarray:
        """Returns some sentences, padded to the longest of them.

        Args:
            rows: int array of shape `(num_rows,)`. The sentences' numbers.

        Returns:
            `int32` array of shape `(num_rows, longest)`.
        """
        places, real = self.places(rows, self.lengths[rows].max())
        return np.where(real, self.token_ids[places], self.pad_token_id)


def encode_sentences(
    texts: Iterable[str],
    tokenizer,
    sequence_length: int,
    language: str | None = None,
) -> EncodedSentences:
    """Tokenizes sentences of one language.

    Args:
        texts: iterable of strings.
        tokenizer: `kdkit.models.Tokenizer` with languages.
        sequence_length: int. The largest number of tokens in a sentence,
            special tokens included. Longer sentences are truncated before
            their `</s>`.
        language: string or `None`. The language whose token precedes the
            sentences. Defaults to `None`, which is `<s>`.

    Returns:
        `EncodedSentences`.

    Raises:
        UsageError: (a `ValueError`) if a text is empty, `sequence_length` is
            too small, or the language has no token.
    """
    room = room_for_text(sequence_length, NUM_SPECIAL)
    texts = list(texts)
    first = tokenizer.language_token_id(language)
    pieces = tokenize(texts, tokenizer)
    for text, its_pieces in pieces.items():
        if not len(its_pieces):
            raise UsageError(
                f"A sentence needs at least one token. Received: {text!r}."
            )
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
    """Joins sentences of several languages to one corpus.

    Args:
        parts: `EncodedSentences` of one vocabulary.
    """
    return EncodedSentences(
        np.concatenate([part.token_ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        sum(part.num_truncated for part in parts),
        parts[0].pad_token_id,
    )


class PairRows(SequenceDataset):
    """Pairs of sentences for an encoder-decoder. Positions are the decoder's.

    Args:
        sources: `EncodedSentences`.
        targets: `EncodedSentences`, one for each source.

    Raises:
        UsageError: (a `ValueError`) if the numbers of sources and targets
            differ.
    """

    is_row_wise = False  # sources are padded to the longest one of a batch

    def __init__(self, sources: EncodedSentences, targets: EncodedSentences):
        if len(sources) != len(targets):
            raise UsageError(
                "Each source needs a target. Received: "
                f"{len(sources)} sources, {len(targets)} targets."
            )
        self._sources, self._targets = sources, targets
        self.lengths = targets.lengths - 1  # the end token is never read
        self.sequence_length = int(self.lengths.max())
        self.num_truncated = sources.num_truncated + targets.num_truncated

    @property
    def sides(self):
        return [self._sources.lengths, self._targets.lengths]

    def contents(self):
        for number in range(len(self)):
            source = self._sources.row(number)
            # The length separates the source from the target.
            length = np.array([len(source)], "int32")
            yield length, source, self._targets.row(number)

    def inputs(self, rows, padded_length):
        return self.batch(rows, padded_length, None)[0]

    def batch(self, rows, padded_length, seed):
        """Returns `(x, y, sample_weight)` for an encoder-decoder.

        `x` has the inputs of a `kdkit.models.MassBackbone`, with the target
        without its end token. `y` is the target without its language token.

        Args:
            rows, padded_length, seed: as in `SequenceDataset.batch`.
        """
        source, target = self._sources.padded(rows), self._targets.padded(rows)
        before, y = target[:, :-1], target[:, 1:]
        pad = self._targets.pad_token_id
        real = y != pad
        places = np.broadcast_to(np.arange(y.shape[1], dtype="int32"), y.shape)
        x = {
            "encoder_token_ids": source,
            "encoder_padding_mask": (
                source != self._sources.pad_token_id
            ).astype("int32"),
            # The end token of a target is predicted, but never read.
            "decoder_token_ids": np.where(real, before, pad),
            "decoder_padding_mask": real.astype("int32"),
            "decoder_positions": np.where(real, places, 0),
        }
        return x, y, real.astype("float32")


class SpanRows(SequenceDataset):
    """Sentences with a hidden span each, another one in each epoch.

    Args:
        sentences: `EncodedSentences`, of one or several languages.
        masker: `kdkit.data.SpanMasker`.
    """

    is_row_wise = False  # spans are drawn for whole batches

    def __init__(self, sentences: EncodedSentences, masker: SpanMasker):
        self._sentences, self._masker = sentences, masker
        self._mask = traced_masker(masker)
        self.lengths = sentences.lengths
        self.sequence_length = int(self.lengths.max())
        self.num_truncated = sentences.num_truncated

    @property
    def sides(self):
        return [self.lengths, self._masker.span_lengths(self.lengths)]

    def batch(self, rows, padded_length, seed):
        """Returns `(x, y, sample_weight)` as `kdkit.data.SpanMasker` does.

        Args:
            rows, padded_length, seed: as in `SequenceDataset.batch`.
        """
        return self._mask(self._sentences.padded(rows), seed)
