"""Packs running text into sequences of one length, on disk."""

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kdkit import models
from kdkit.data.encoding import room_for_text
from kdkit.data.masking import Masker, traced_masker
from kdkit.data.store import read_columns, write_columns
from kdkit.data.stream import SequenceDataset
from kdkit.errors import UsageError

TEXTS_PER_STEP = 256  # tokenized together
COLUMNS = {"rows": "int32"}
PADDING = -1  # after the last token of a decoder's last sequence


@dataclasses.dataclass(frozen=True, eq=False)
class PackedCorpus:
    """Sequences of token ids of the same length, read from disk as needed.

    Args:
        rows: `int32` array of shape `(num_rows, sequence_length)`, mapped from
            the file.
        num_texts: int. The number of packed texts.
        stride: int or `None`. For decoders, the tokens between the beginnings
            of two sequences; `None` for sequences without overlap. Defaults
            to `None`.
        num_words: int or `None`. The number of words, if they were counted.
            Defaults to `None`.
    """

    rows: np.ndarray
    num_texts: int
    stride: int | None = None
    num_words: int | None = None

    def __len__(self):
        return len(self.rows)

    @property
    def sequence_length(self) -> int:
        """Tokens of every sequence, special tokens included."""
        return self.rows.shape[1]


def pack(
    texts: Iterable[str], tokenizer, sequence_length: int, directory
) -> PackedCorpus:
    """Tokenises texts and packs them into sequences without padding.

    The texts are joined with `[SEP]` between them. Every sequence is `[CLS]`,
    the next `sequence_length - 2` tokens, and `[SEP]`. Tokens that do not fill
    the last sequence are left out. Sequences are written to disk step by step,
    so memory does not grow with the texts.

    Args:
        texts: iterable of strings.
        tokenizer: `kdkit.models.Tokenizer`, or another with
            `start_token_id` and `end_token_id`.
        sequence_length: int. Tokens of a sequence.
        directory: path of a new folder for the sequences, or of one with
            earlier sequences, which are replaced.

    Returns:
        `PackedCorpus`.

    Raises:
        UsageError: if the texts have no token, or `sequence_length` is too
            small for any text.
    """
    frame = (tokenizer.start_token_id, tokenizer.end_token_id)
    room = room_for_text(sequence_length, len(frame))
    about = {"num_texts": 0}
    windows = _windows(_tokenised(texts, tokenizer, about), room, room)
    rows = (
        np.pad(some, [(0, 0), (1, 1)], constant_values=[(0, 0), frame])
        for some in windows
    )
    return _write(directory, rows, sequence_length, about)


def pack_stream(
    texts: Iterable[str],
    tokenizer,
    sequence_length: int,
    directory,
    stride: int | None = None,
    one_document: bool = False,
    num_words: int | None = None,
) -> PackedCorpus:
    """Tokenises texts and packs them into sequences for a decoder.

    The texts are joined, with `<|endoftext|>` before, between and after them. A
    sequence has `sequence_length + 1` tokens: all except the last are read, and
    all except the first are predicted. The next sequence begins `stride` tokens
    later, so every token except the very first is predicted. `PADDING` fills
    the last sequence.

    Args:
        texts: iterable of strings.
        tokenizer: `kdkit.models.Tokenizer`, or another with
            `end_token_id`.
        sequence_length: int. Tokens that are read at once.
        directory: path of a new folder for the sequences, or of one with
            earlier sequences, which are replaced.
        stride: int or `None`. From 1 to `sequence_length`. With less than
            `sequence_length`, sequences overlap, and the tokens of an overlap
            are context in the second one. Defaults to `None`, which is
            `sequence_length`: every token is predicted once.
        one_document: bool. Whether the texts are lines of documents: an empty
            text ends a document, other texts do not. Defaults to `False`.
        num_words: int or `None`. Words of the texts, for the perplexity per
            word. Defaults to `None`.

    Returns:
        `PackedCorpus`.

    Raises:
        UsageError: if the texts have no token, or the stride is impossible.
    """
    stride = sequence_length if stride is None else stride
    if not 1 <= stride <= sequence_length:
        raise UsageError(
            "A stride must be from 1 token to the sequence length. Received: "
            f"stride={stride}, sequence_length={sequence_length}."
        )
    about = {"num_texts": 0, "stride": stride, "num_words": num_words}
    begin = np.array([tokenizer.end_token_id], "int32")
    stream = itertools.chain(
        [begin], _tokenised(texts, tokenizer, about, one_document)
    )
    rows = _windows(stream, sequence_length + 1, stride, pads_last=True)
    return _write(directory, rows, sequence_length + 1, about)


def _windows(stream, width, step, pads_last=False):
    """Yields windows of a stream of tokens, each `step` after the one before.

    With `pads_last`, padding fills a last window with the tokens that no other
    window predicts.
    """
    rest, num_seen = np.empty(0, "int32"), 1
    for some in stream:
        tokens = np.concatenate([rest, some])
        num_full = max(0, (len(tokens) - width) // step + 1)
        if num_full:
            num_seen = width - step
            yield sliding_window_view(tokens, width)[::step][:num_full]
        rest = tokens[num_full * step :]
    if pads_last and len(rest) > num_seen:
        padding = (0, width - len(rest))
        yield np.pad(rest, padding, constant_values=PADDING)[np.newaxis]


def _write(directory, rows, sequence_length, about) -> PackedCorpus:
    """Writes sequences of one length, and opens them."""
    first = next(rows, None)
    if first is None:
        raise UsageError(
            f"The corpus is too short: its {about['num_texts']} texts do not "
            f"fill a sequence of {sequence_length} tokens."
        )
    about["sequence_length"] = sequence_length
    steps = ({"rows": some} for some in itertools.chain([first], rows))
    write_columns(directory, COLUMNS, steps, about)
    return open_packed(directory)


def open_packed(directory) -> PackedCorpus | None:
    """Returns the packed text in a directory.

    Args:
        directory: path, as in `pack`.

    Returns:
        `PackedCorpus`, or `None` if `pack` did not finish.
    """
    found = read_columns(directory, COLUMNS)
    if found is None:
        return None
    columns, about = found
    rows = columns["rows"].reshape(-1, about.pop("sequence_length"))
    return PackedCorpus(rows, **about)


def _tokenised(texts, tokenizer, about, one_document=False):
    """Yields the tokens of some texts at a time, with an end after each."""
    end = tokenizer.end_token_id
    tokenizer = models.as_tokenizer(tokenizer)
    texts = iter(texts)
    while some := list(itertools.islice(texts, TEXTS_PER_STEP)):
        rows = tokenizer.rows(some)
        token_ids = np.concatenate(rows).astype("int32")
        lengths = np.array([len(row) for row in rows], "int32")
        ends = np.cumsum(lengths)
        if one_document:
            ends = ends[lengths == 0]
        about["num_texts"] += len(some)
        yield np.insert(token_ids, ends, end)


class PackedRows(SequenceDataset):
    """Packed text without masks: a decoder predicts each next token.

    A token in several overlapping sequences counts only in the first one, and
    is context in the others.

    Args:
        corpus: `PackedCorpus`. It stays on disk.
    """

    def __init__(self, corpus: PackedCorpus):
        self._corpus = corpus
        self._is_for_decoder = corpus.stride is not None
        self.sequence_length = corpus.sequence_length - self._is_for_decoder
        self.lengths = np.full(len(corpus), self.sequence_length, "int32")
        # Only the last sequence may have padding; its last token is not read.
        filled = int((corpus.rows[-1] != PADDING).sum())
        self.lengths[-1] = filled - self._is_for_decoder
        # Tokens of a sequence that are also in the one before.
        if self._is_for_decoder:
            self._num_seen = self.sequence_length - corpus.stride

    def contents(self):
        for row, length in zip(self._corpus.rows, self.lengths, strict=True):
            yield (np.ascontiguousarray(row[:length]),)

    def inputs(self, rows, padded_length):
        chosen = self._corpus.rows[rows, :padded_length]
        is_token = chosen != PADDING
        inputs = {
            "token_ids": np.where(is_token, chosen, 0),
            "padding_mask": is_token.astype("int32"),
        }
        if not self._is_for_decoder:
            inputs["segment_ids"] = np.zeros_like(chosen)
        return inputs

    def batch(self, rows, padded_length, seed):
        """Returns the inputs of an encoder, or `(x, y, sample_weight)`.

        `y` contains the token after each one in `x`, and `sample_weight` is 1
        where one exists. All have shape `(batch_size, sequence_length)`.

        Args:
            rows, padded_length, seed: as in `SequenceDataset.batch`.
        """
        inputs = self.inputs(rows, padded_length)
        if not self._is_for_decoder:
            return inputs
        y = self._corpus.rows[rows, 1:]
        weights = (y != PADDING).astype("float32")
        weights[rows > 0, : self._num_seen] = 0
        return inputs, np.maximum(y, 0), weights


class MaskedRows(SequenceDataset):
    """Packed text with masks that differ in each batch.

    Args:
        corpus: `PackedCorpus`. It stays on disk.
        masker: `Masker`.
    """

    is_row_wise = False  # masks are drawn for whole batches

    def __init__(self, corpus: PackedCorpus, masker: Masker):
        self._corpus = corpus
        self._mask = traced_masker(masker, corpus.sequence_length)
        self.sequence_length = corpus.sequence_length
        self.lengths = np.full(len(corpus), self.sequence_length, "int32")

    def batch(self, rows, padded_length, seed):
        """Returns `(x, y, sample_weight)` as `Masker` does.

        Args:
            rows, padded_length, seed: as in `SequenceDataset.batch`.
        """
        return self._mask(self._corpus.rows[rows], seed)
