"""Text from a decoder, or from its file."""

from collections.abc import Sequence

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.decoding.step import num_positions
from kdkit.errors import UsageError


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
        token_ids: sequence of ints. The text so far, of one token at least.
        max_tokens: int. How many tokens to add at most.
        sampler: string or `keras_hub.samplers.Sampler`. A file reads one text
            and so takes only those that choose a token by the probabilities of
            the next: `"greedy"`, `"random"`, `"top_k"` and `"top_p"`. Defaults
            to `"greedy"`.
        stop_token_ids: sequence of ints. Tokens that end the text; the one
            that does is not returned.

    Returns:
        An int32 array of the new tokens.

    Raises:
        UsageError: (a `ValueError`) if there is no text, or no room for so
            many tokens, or a file cannot use the sampler.

    Example:

    ```python
    student = kdkit.export.LiteRTDecoder("student-int8.tflite")
    tokenizer.detokenize(kdkit.decoding.generate(student, tokens, 20))
    ```
    """
    is_file = not isinstance(decoder, keras.Model)
    sampler = keras_hub.samplers.get(sampler)
    if is_file and "get_next_token" not in vars(type(sampler)):
        raise UsageError(
            f"A {type(sampler).__name__} compares several texts, and a "
            "decoder's file reads one. Expected one of 'greedy', 'random', "
            "'top_k', 'top_p'."
        )
    if not len(token_ids) or max_tokens < 1:
        raise UsageError(
            "Expected a text of one token or more, and to add one or more. "
            f"Received: {len(token_ids)} tokens, max_tokens={max_tokens}."
        )
    room = decoder.sequence_length if is_file else num_positions(decoder)
    if room is not None and len(token_ids) + max_tokens > room:
        raise UsageError(
            f"The decoder has room for {room} tokens, those of the text and "
            f"the new ones. Received: {len(token_ids)} tokens, "
            f"max_tokens={max_tokens}."
        )
    make = _with_file if is_file else _with_keras
    return make(decoder, token_ids, max_tokens, sampler, list(stop_token_ids))


def _with_file(decoder, token_ids, max_tokens, sampler, stop_token_ids):
    logits = decoder(token_ids)[-1]
    new = []
    while True:
        probabilities = sampler.compute_probabilities(logits[np.newaxis])
        token = int(ops.squeeze(sampler.get_next_token(probabilities)))
        if token in stop_token_ids:
            break
        new.append(token)
        if len(new) == max_tokens:
            break
        logits = decoder.step(token)
    return np.asarray(new, "int32")


def _with_keras(model, token_ids, max_tokens, sampler, stop_token_ids):
    num_given = len(token_ids)
    # Room that holds a stop token would count as the end.
    empty = min(set(range(len(stop_token_ids) + 1)) - set(stop_token_ids))
    tokens = np.full((1, num_given + max_tokens), empty, "int32")
    tokens[0, :num_given] = token_ids
    model.compile(sampler=sampler, jit_compile=False)
    generated = model.generate(
        {
            "token_ids": tokens,
            "padding_mask": np.arange(tokens.shape[1])[np.newaxis] < num_given,
        },
        stop_token_ids=stop_token_ids or None,
    )
    new = np.asarray(generated["token_ids"])[0, num_given:]
    ends = np.flatnonzero(np.isin(new, stop_token_ids))
    return new[: ends[0]] if len(ends) else new
