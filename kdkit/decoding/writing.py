"""What an encoder-decoder writes of many texts, such as translations."""

from collections.abc import Sequence

import keras
import numpy as np

from kdkit import models
from kdkit.data import encode_sentences
from kdkit.data import token_batches
from kdkit.decoding.beams import Beams
from kdkit.decoding.beams import make_beam_search
from kdkit.decoding.file_search import search_file
from kdkit.errors import UsageError

TOKENS_AT_ONCE = 1024  # of sources with their padding, for each beam


class TextWriter:
    """Writes one text of each that it is given, the likeliest it finds.

    Texts of similar lengths are read together; what is written does not depend
    on which.

    Args:
        model: `kdkit.models.MassSeq2SeqLM`, or `kdkit.export.LiteRTSeq2Seq` of
            its file.
        tokenizer: `kdkit.models.MassTokenizer`, or the
            `kdkit.models.TokenizerPair` of a model with two vocabularies.
        languages: tuple of two strings or `None`s. What is read and what is
            written.
        beams: `Beams`.
        max_length: int. Tokens of a text at most, special ones included, on
            either side; longer sources are cut.

    Call arguments:
        texts: sequence of strings.

    Returns of a call:
        list of strings, in their order, without line breaks.

    Attributes:
        num_truncated: int. How many sources were cut so far.
        num_unfinished: int. How many texts so far had no room for their end.

    Raises:
        UsageError: (a `ValueError`) for a language without a token, a text
            without tokens, or a length that the model has no positions for.
    """

    def __init__(self, model, tokenizer, languages, beams: Beams, max_length):
        self._reading, self._writing = models.tokenizers_of_sides(tokenizer)
        self._source, target = languages
        self._max_length = max_length
        self.num_truncated = 0
        self.num_unfinished = 0
        self._first = self._writing.language_token_id(target)
        self._at_once = max(TOKENS_AT_ONCE // beams.beam_size, 1)
        self._reading.language_token_id(self._source)  # refuses unknown ones
        is_file = not isinstance(model, keras.Model)
        positions = (
            model.room if is_file else model.backbone.max_sequence_length
        )
        if max_length > positions:
            raise UsageError(
                f"The model reads and writes {positions} tokens at most. "
                f"Received: max_length={max_length}."
            )
        make = _search_in_file if is_file else make_beam_search
        end = self._writing.end_token_id
        self._search = make(model, beams, max_length, end)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        sources = encode_sentences(
            texts, self._reading, self._max_length, self._source
        )
        self.num_truncated += sources.num_truncated
        written = {}
        batches = token_batches([sources.lengths], self._at_once, 0, 0)
        for rows in batches:
            token_ids = sources.padded(rows)
            found, _ = self._search(
                token_ids,
                (token_ids != sources.pad_token_id).astype("int32"),
                np.full(len(rows), self._first, "int32"),
            )
            written.update(zip(rows, map(self._text, found), strict=True))
        return [written[row] for row in range(len(sources))]

    def _text(self, token_ids):
        """The text of what was found, without its first token and its end."""
        new = np.asarray(token_ids)[1:]
        (ends,) = np.nonzero(new == self._writing.end_token_id)
        if len(ends):
            new = new[: ends[0]]
        else:
            self.num_unfinished += 1
        # Bytes spell all white space there is, and a text is one line.
        return " ".join(self._writing.detokenize(new).split())


def _search_in_file(file, beams, max_length, end_token_id):
    """As `make_beam_search`, with a file, which reads one source at a time."""

    def search(token_ids, padding_mask, first_token_ids):
        rows = zip(
            token_ids, padding_mask.sum(axis=1), first_token_ids, strict=True
        )
        found = [
            search_file(
                file, row[:length], first, beams, max_length, end_token_id
            )
            for row, length, first in rows
        ]
        tokens, scores = zip(*found, strict=True)
        return tokens, scores

    return search
