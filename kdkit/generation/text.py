"""Writes text with a decoder or its exported file."""

from collections.abc import Sequence

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.data import encode_sentences
from kdkit.data.orders import token_batches
from kdkit.errors import UsageError
from kdkit.generation.beams import Beams, make_beam_search
from kdkit.generation.step import num_positions


def generate(
    decoder,
    token_ids: Sequence[int],
    max_tokens: int,
    sampler="greedy",
    stop_token_ids: Sequence[int] = (),
) -> np.ndarray:
    """Continues a text.

    Args:
        decoder: `kdkit.export.LiteRTDecoder`, or a
            `keras_hub.models.CausalLM`.
        token_ids: sequence of ints. The text so far, at least one token.
        max_tokens: int. The maximum number of tokens to add.
        sampler: string or `keras_hub.samplers.Sampler`. A file processes one
            text, so it only supports samplers that choose a token by the next
            token's probabilities: `"greedy"`, `"random"`, `"top_k"` and
            `"top_p"`. Defaults to `"greedy"`.
        stop_token_ids: sequence of ints. Tokens that end the text. The token
            that ends it is not returned.

    Returns:
        An int32 array of the new tokens.

    Raises:
        UsageError: (a `ValueError`) if the tokens exceed the decoder's
            capacity.

    Example:

    ```python
    student = kdkit.export.LiteRTDecoder("student-int8.tflite")
    tokenizer.detokenize(kdkit.generation.generate(student, tokens, 20))
    ```
    """
    is_file = not isinstance(decoder, keras.Model)
    sampler = keras_hub.samplers.get(sampler)
    room = decoder.sequence_length if is_file else num_positions(decoder)
    if room is not None and len(token_ids) + max_tokens > room:
        raise UsageError(
            f"The decoder's capacity is {room} tokens. Received: "
            f"{len(token_ids)} tokens, max_tokens={max_tokens}."
        )
    make = _with_file if is_file else _with_keras
    return make(decoder, token_ids, max_tokens, sampler, list(stop_token_ids))


def _with_file(decoder, token_ids, max_tokens, sampler, stop_token_ids):
    logits = decoder(token_ids)[-1]
    new = []
    while len(new) < max_tokens:
        probabilities = sampler.compute_probabilities(logits[np.newaxis])
        token = int(ops.squeeze(sampler.get_next_token(probabilities)))
        if token in stop_token_ids:
            break
        new.append(token)
        if len(new) < max_tokens:
            logits = decoder.step(token)
    return np.asarray(new, "int32")


def _with_keras(model, token_ids, max_tokens, sampler, stop_token_ids):
    num_given = len(token_ids)
    # Empty positions must not contain a stop token, which would end the text.
    empty = min(set(range(len(stop_token_ids) + 1)) - set(stop_token_ids))
    tokens = np.full((1, num_given + max_tokens), empty, "int32")
    tokens[0, :num_given] = token_ids
    # `compile` would also replace the optimizer. A preprocessor would take the
    # token ids for texts.
    names = ("sampler", "jit_compile", "preprocessor", "generate_function")
    given = {name: getattr(model, name, None) for name in names}
    settings = dict.fromkeys(names) | {"sampler": sampler, "jit_compile": False}
    _set(model, settings)
    try:
        generated = model.generate(
            {
                "token_ids": tokens,
                "padding_mask": np.arange(tokens.shape[1])[np.newaxis]
                < num_given,
            },
            stop_token_ids=stop_token_ids or None,
        )
    finally:
        _set(model, given)
    new = np.asarray(generated["token_ids"])[0, num_given:]
    ends = np.flatnonzero(np.isin(new, stop_token_ids))
    return new[: ends[0]] if len(ends) else new


def _set(model, settings):
    for name, value in settings.items():
        setattr(model, name, value)


TOKENS_AT_ONCE = 1024  # tokens of sources with padding, per beam


class TextWriter:
    """Writes one text for each source text, the most probable one it finds.

    Texts of similar lengths are processed together. The result for a text does
    not depend on the other texts.

    Args:
        model: `kdkit.models.MassSeq2SeqLM`, or its file, a
            `kdkit.export.LiteRTSeq2Seq`.
        tokenizer: `kdkit.models.Tokenizer` with languages.
        languages: tuple of two strings or `None`s. The source and the target
            language.
        beams: `Beams`.
        max_length: int. Maximum number of tokens of a text, including special
            tokens, on either side. Longer sources are truncated.

    Call arguments:
        texts: sequence of strings.

    Returns of a call:
        list of strings, in the same order, without line breaks.

    Attributes:
        num_truncated: int. How many sources were truncated so far.
        num_unfinished: int. How many texts reached `max_length` so far.

    Raises:
        UsageError: (a `ValueError`) for a language without a token, or a length
            above the model's positions.
    """

    def __init__(self, model, tokenizer, languages, beams: Beams, max_length):
        self._tokenizer = tokenizer
        self._source, target = languages
        self._max_length = max_length
        self.num_truncated = 0
        self.num_unfinished = 0
        self._first = tokenizer.language_token_id(target)
        self._at_once = max(TOKENS_AT_ONCE // beams.beam_size, 1)
        self._search = make_beam_search(
            model, beams, max_length, tokenizer.end_token_id
        )

    def __call__(self, texts: Sequence[str]) -> list[str]:
        sources = encode_sentences(
            texts, self._tokenizer, self._max_length, self._source
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
        """Returns the text for tokens, without the first token and the end."""
        new = np.asarray(token_ids)[1:]
        (ends,) = np.nonzero(new == self._tokenizer.end_token_id)
        if len(ends):
            new = new[: ends[0]]
        else:
            self.num_unfinished += 1
        # Bytes can spell any white space, but a text is one line.
        return " ".join(self._tokenizer.detokenize(new).split())
