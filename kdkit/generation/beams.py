"""Beam search of encoder-decoders, with cached keys and values."""

import dataclasses
import math

import numpy as np
import scipy.special
from keras import ops

from kdkit.errors import UsageError
from kdkit.late import tf

IMPOSSIBLE = -1e9


@dataclasses.dataclass(frozen=True)
class Beams:
    """The settings of a beam search.

    A text's score is its log probability divided by its number of tokens,
    including its end, to the power of `length_penalty`: 0 prefers short texts,
    1 gives the mean over the tokens. A text is finished when its end is among
    the `beam_size` most probable next tokens of all open texts. The search ends
    when no open text can become better than a finished one, or, with
    `early_stopping`, as soon as `beam_size` texts are finished.

    Args:
        beam_size: int. Number of open texts at a time. 1 is greedy decoding,
            which always takes the most probable token and ends with the text's
            end. Defaults to `4`.
        length_penalty: float. At least 0. Defaults to `1.0`.
        early_stopping: bool. `False` continues as long as a longer text could
            have a better score. With a penalty of 1, a model that begins to
            repeat itself then continues to `max_length`. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) if `beam_size` is below 1 or the penalty
            is negative.
    """

    beam_size: int = 4
    length_penalty: float = 1.0
    early_stopping: bool = True

    def __post_init__(self):
        if self.beam_size < 1:
            raise UsageError(
                "`beam_size` must be at least 1. Received: "
                f"beam_size={self.beam_size}."
            )
        if not 0 <= self.length_penalty < math.inf:
            raise UsageError(
                "`length_penalty` must be a number of at least 0. Received: "
                f"length_penalty={self.length_penalty}."
            )


def make_beam_search(model, beams: Beams, max_length: int, end_token_id: int):
    """Returns a function that searches for the most probable text.

    Args:
        model: `keras_hub.models.BartSeq2SeqLM`, such as a
            `kdkit.models.MassSeq2SeqLM`.
        beams: `Beams`.
        max_length: int. Maximum number of tokens of a text, including the first
            token and the end.
        end_token_id: int. The token that ends a text.

    Returns:
        A callable of `token_ids` and `padding_mask` of the encoder, `int32`
        tensors of shape `(batch_size, length)`, and of `first_token_ids` of the
        decoder of shape `(batch_size,)`. It returns token ids of shape
        `(batch_size, max_length)`, filled up with `end_token_id`, and scores
        of shape `(batch_size,)`. It is a `tf.function`.

    Raises:
        UsageError: (a `ValueError`) if `max_length` is above the model's
            positions.
    """
    # The last token is written but never read.
    longest = model.backbone.max_sequence_length + 1
    if max_length > longest:
        raise UsageError(
            f"The model's positions are for at most {longest} tokens. Received:"
            f" max_length={max_length}."
        )
    search = _Search(model, beams, max_length, end_token_id)
    row, ids = (None,), (None, None)
    return tf.function(
        search,
        input_signature=[
            tf.TensorSpec(ids, "int32"),
            tf.TensorSpec(ids, "int32"),
            tf.TensorSpec(row, "int32"),
        ],
        autograph=False,
    )


class _Search:
    """The search over batches; shapes are (batch, beam, ...)."""

    def __init__(self, model, beams, max_length, end_token_id):
        self._model = model
        self._size = beams.beam_size
        self._penalty = beams.length_penalty
        self._stops_early = beams.early_stopping
        self._max_length = max_length
        self._end = end_token_id

    def __call__(self, token_ids, padding_mask, first_token_ids):
        batch = tf.shape(token_ids)[0]
        tokens = tf.fill((batch, self._size, self._max_length), self._end)
        first = tf.repeat(first_token_ids[:, None], self._size, axis=1)
        tokens = tf.concat([first[..., None], tokens[..., 1:]], axis=2)
        source, caches = self._begin(token_ids, padding_mask, tokens)
        # All beams are still equal: one of them is enough.
        alone = tf.one_hot(0, self._size, 0.0, IMPOSSIBLE)
        state = {
            "length": tf.constant(1),
            "tokens": tokens,
            "scores": tf.tile(alone[None], (batch, 1)),
            "cache": caches["self"],
            "finished": tokens,
            "finished_scores": tf.fill((batch, self._size), IMPOSSIBLE),
        }

        def step(state):
            logits, cache = self._read(state, source, caches["cross"])
            return self._extended(state, logits, cache)

        (state,) = tf.while_loop(
            self._goes_on, lambda one: [step(one)], [state]
        )
        return state["finished"][:, 0], state["finished_scores"][:, 0]

    def _begin(self, token_ids, padding_mask, tokens):
        """Returns the encoder's states for every beam, and empty caches."""
        encoded = self._model.call_encoder(token_ids, padding_mask)
        source = tuple(
            tf.repeat(one, self._size, axis=0)
            for one in (encoded, padding_mask)
        )
        backbone = self._model.backbone
        head_dim = backbone.hidden_dim // backbone.num_heads

        def empty(length):
            return tf.zeros(
                (
                    tf.shape(source[0])[0],
                    backbone.num_layers,
                    2,
                    length,
                    backbone.num_heads,
                    head_dim,
                ),
                self._model.compute_dtype,
            )

        own = empty(self._max_length)
        *_, cross = self._model.call_decoder_with_cache(
            *source,
            self._flat(tokens)[:, :1],
            self_attention_cache=own,
            self_attention_cache_update_index=0,
            cross_attention_cache=empty(tf.shape(token_ids)[1]),
            cross_attention_cache_update_index=0,
        )
        return source, {"self": own, "cross": cross}

    def _read(self, state, source, cross):
        """Returns log probabilities of the next tokens, and the new cache."""
        place = state["length"] - 1
        last = tf.gather(self._flat(state["tokens"]), [place], axis=1)
        logits, _, cache, _ = self._model.call_decoder_with_cache(
            *source,
            last,
            self_attention_cache=state["cache"],
            self_attention_cache_update_index=place,
            cross_attention_cache=cross,
            cross_attention_cache_update_index=None,
        )
        return ops.log_softmax(ops.cast(logits[:, 0], "float32")), cache

    def _extended(self, state, log_probs, cache):
        """Returns the state with one more token."""
        length = state["length"]
        vocabulary = tf.shape(log_probs)[-1]
        log_probs = tf.reshape(log_probs, (-1, self._size, vocabulary))
        scores = state["scores"][..., None] + log_probs
        # Twice as many, because at most one per beam is an end.
        wanted = 2 * self._size if self._size > 1 else 1
        scores, best = tf.nn.top_k(
            tf.reshape(scores, (-1, self._size * vocabulary)), wanted
        )
        beam, token = best // vocabulary, best % vocabulary
        tokens = tf.gather(state["tokens"], beam, batch_dims=1)
        here = tf.one_hot(length, self._max_length, True, False)
        tokens = tf.where(here, token[..., None], tokens)
        # A text without capacity for another token is finished.
        ended = (token == self._end) | (length + 1 >= self._max_length)
        counts = (
            ended
            & (tf.range(wanted) < self._size)
            & (scores > IMPOSSIBLE / 2)
            & ~self._is_over(state)[:, None]
        )
        normalized = scores / self._divisor(length)
        finished_scores, which = tf.nn.top_k(
            tf.concat(
                [
                    state["finished_scores"],
                    tf.where(counts, normalized, IMPOSSIBLE),
                ],
                axis=1,
            ),
            self._size,
        )
        finished = tf.gather(
            tf.concat([state["finished"], tokens], axis=1), which, batch_dims=1
        )
        open_scores, kept = tf.nn.top_k(
            tf.where(ended, IMPOSSIBLE, scores), self._size
        )
        beam = tf.gather(beam, kept, batch_dims=1)
        rows = tf.range(tf.shape(beam)[0])[:, None] * self._size + beam
        return {
            "length": length + 1,
            "tokens": tf.gather(tokens, kept, batch_dims=1),
            "scores": open_scores,
            "cache": tf.gather(cache, tf.reshape(rows, (-1,))),
            "finished": finished,
            "finished_scores": finished_scores,
        }

    def _goes_on(self, state):
        """Whether the search is not over for at least one source."""
        return (state["length"] < self._max_length) & ~tf.reduce_all(
            self._is_over(state)
        )

    def _is_over(self, state):
        """Returns for each source whether its best text is final."""
        # Log probabilities only fall, and the longest text divides them most.
        hoped = state["scores"][:, 0] / self._divisor(self._max_length - 1)
        is_over = hoped <= state["finished_scores"][:, 0]
        if self._stops_early:
            is_over |= state["finished_scores"][:, -1] > IMPOSSIBLE / 2
        return is_over

    def _divisor(self, length):
        return tf.cast(length, "float32") ** self._penalty

    def _flat(self, tokens):
        return tf.reshape(tokens, (-1, self._max_length))


@dataclasses.dataclass(frozen=True)
class _Open:
    """An open text."""

    score: float
    tokens: list
    state: tuple


def search_file(
    file,
    source_ids,
    first_token_id: int,
    beams: Beams,
    max_length: int,
    end_token_id: int,
) -> tuple[list[int], float]:
    """Writes the most probable text that a beam search finds.

    Returns the same as `kdkit.generation.make_beam_search` with the Keras
    model, for one source.

    Args:
        file: `kdkit.export.LiteRTSeq2Seq`.
        source_ids: int array of shape `(num_source_tokens,)`.
        first_token_id: int. The token that begins a text.
        beams: `Beams`.
        max_length: int. Maximum number of tokens of a text, including the first
            token and the end.
        end_token_id: int. The token that ends a text.

    Returns:
        Tuple of the tokens, including the first one and the end, and the score.

    Raises:
        UsageError: (a `ValueError`) if the file's capacity is too small.
    """
    file.read_source(source_ids)
    texts = [_Open(0.0, [first_token_id], file.state())]
    # Twice as many, because at most one per beam is an end.
    wanted = 2 * beams.beam_size if beams.beam_size > 1 else 1
    best, best_score, num_finished = None, -np.inf, 0
    while texts:
        scores, states = [], []
        for text in texts:
            file.set_state(text.state)
            logits = file.step(text.tokens[-1]).astype("float32")
            states.append(file.state())
            scores.append(text.score + scipy.special.log_softmax(logits))
        scores = np.stack(scores)
        length = len(texts[0].tokens)
        goes_on = []
        for rank, place in enumerate(_largest(scores, wanted)):
            beam, token = np.unravel_index(place, scores.shape)
            score = float(scores[beam, token])
            tokens = [*texts[beam].tokens, int(token)]
            if token != end_token_id and length + 1 < max_length:
                goes_on.append(_Open(score, tokens, states[beam]))
                continue
            if rank >= beams.beam_size:
                continue
            num_finished += 1
            normalized = score / length**beams.length_penalty
            if normalized > best_score:
                best, best_score = tokens, normalized
        texts = goes_on[: beams.beam_size]
        # Log probabilities only fall, and the longest text divides them most.
        longest = (max_length - 1) ** beams.length_penalty
        if texts and texts[0].score / longest <= best_score:
            break
        if beams.early_stopping and num_finished >= beams.beam_size:
            break
    return best, best_score


def _largest(scores, count):
    """Returns the indices of the largest values, best first; ties by index."""
    flat = scores.ravel()
    count = min(count, flat.size)
    least = np.partition(flat, flat.size - count)[flat.size - count]
    places = np.flatnonzero(flat >= least)
    return places[np.argsort(-flat[places], kind="stable")][:count]
