"""Beam search of encoder-decoders, with cached keys and values."""

import dataclasses
import math

import keras
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
            `kdkit.models.MassSeq2SeqLM`, or its file, a
            `kdkit.export.LiteRTSeq2Seq`.
        beams: `Beams`.
        max_length: int. Maximum number of tokens of a text, including the first
            token and the end.
        end_token_id: int. The token that ends a text.

    Returns:
        A callable of `token_ids` and `padding_mask` of the encoder, int arrays
        of shape `(batch_size, length)`, and of `first_token_ids` of the
        decoder of shape `(batch_size,)`. It returns token ids of shape
        `(batch_size, max_length)`, filled up with `end_token_id`, and scores
        of shape `(batch_size,)`.

    Raises:
        UsageError: (a `ValueError`) if `max_length` is above the model's
            positions.
    """
    is_file = not isinstance(model, keras.Model)
    backbone = getattr(model, "backbone", None)
    room = model.sequence_length if is_file else backbone.max_sequence_length
    if max_length > room + 1:  # the last token is written but never read
        raise UsageError(
            f"The model's positions are for at most {room + 1} tokens. "
            f"Received: max_length={max_length}."
        )
    kind = _FileReader if is_file else _ModelReader
    reader = kind(model, beams.beam_size, max_length)

    def search(token_ids, padding_mask, first_token_ids):
        rows, found = [np.s_[:]], []
        if is_file:  # it reads source by source
            rows = [np.s_[row : row + 1] for row in range(len(token_ids))]
        for some in rows:
            first = np.asarray(first_token_ids[some])
            reader.begin(token_ids[some], padding_mask[some], first)
            found.append(
                _search(reader, first, beams, max_length, end_token_id)
            )
        tokens, scores = zip(*found, strict=True)
        return np.concatenate(tokens), np.concatenate(scores)

    return search


def _search(reader, first, beams, max_length, end):
    """The best text of each source; shapes are (batch, beam, ...)."""
    size, batch = beams.beam_size, len(first)
    rows = np.arange(batch)[:, None]
    tokens = np.full((batch, size, max_length), end, "int32")
    tokens[..., 0] = first[:, None]
    # All beams are still equal: one of them is enough.
    scores = np.full((batch, size), IMPOSSIBLE)
    scores[:, 0] = 0
    finished, finished_scores = tokens, np.full((batch, size), IMPOSSIBLE)
    parents = np.arange(batch * size)
    for length in range(1, max_length):
        # Log probabilities only fall, and the longest text divides them most.
        hoped = scores[:, 0] / (max_length - 1) ** beams.length_penalty
        is_over = hoped <= finished_scores[:, 0]
        if beams.early_stopping:
            is_over |= finished_scores[:, -1] > IMPOSSIBLE / 2
        if is_over.all():
            break
        last, is_open = tokens[..., length - 1], scores > IMPOSSIBLE / 2
        log_probs, ids = reader.step(last.ravel(), parents, is_open.ravel())
        count = ids.shape[-1]
        longer = scores[..., None] + log_probs.reshape(batch, size, count)
        # Twice as many, because at most one per beam is an end.
        wanted = 2 * size if size > 1 else 1
        longer, best = _best(longer.reshape(batch, -1), wanted)
        beam, token = best // count, ids.reshape(batch, -1)[rows, best]
        texts = tokens[rows, beam]
        texts[..., length] = token
        # A text without capacity for another token is finished.
        has_ended = (token == end) | (length + 1 >= max_length)
        counts = has_ended & (longer > IMPOSSIBLE / 2) & ~is_over[:, None]
        counts[:, size:] = False
        normalized = longer / length**beams.length_penalty
        ended = np.where(counts, normalized, IMPOSSIBLE)
        finished_scores, which = _best(
            np.hstack([finished_scores, ended]), size
        )
        finished = np.concatenate([finished, texts], axis=1)[rows, which]
        scores, kept = _best(np.where(has_ended, IMPOSSIBLE, longer), size)
        tokens = texts[rows, kept]
        parents = (rows * size + beam[rows, kept]).ravel()
    return finished[:, 0], finished_scores[:, 0]


def _best(scores, count):
    """The largest scores of each row, best first, and where they are."""
    count = min(count, scores.shape[1])
    places = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    places.sort(axis=1)
    found = np.take_along_axis(scores, places, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return tuple(np.take_along_axis(one, order, 1) for one in (found, places))


class _ModelReader:
    """Reads one token of every beam at a time, with a Keras model."""

    def __init__(self, model, size, max_length):
        self._model, self._size, self._max_length = model, size, max_length
        compiled = {"autograph": False, "reduce_retracing": True}
        self._encode = tf.function(self._encoded, **compiled)
        self._read = tf.function(self._step, **compiled)

    def begin(self, token_ids, padding_mask, first):
        given = map(_as_int32, (token_ids, padding_mask, first))
        self._source, self._own, self._cross = self._encode(*given)
        self._place = 0

    def step(self, tokens, parents, is_open):
        """Log probabilities and ids of the most probable next tokens."""
        given = map(_as_int32, (tokens, parents, self._place))
        state = self._source, self._cross, self._own
        self._own, log_probs, ids = self._read(*state, *given)
        self._place += 1
        return log_probs.numpy(), ids.numpy()

    def _encoded(self, token_ids, padding_mask, first):
        """The encoder's states for every beam, and caches."""
        encoded = self._model.call_encoder(token_ids, padding_mask)
        source = tuple(
            tf.repeat(one, self._size, axis=0)
            for one in (encoded, padding_mask)
        )
        backbone = self._model.backbone
        heads = backbone.num_heads, backbone.hidden_dim // backbone.num_heads
        begin = tf.shape(source[0])[0], backbone.num_layers, 2
        own, cross = (
            tf.zeros((*begin, length, *heads), self._model.compute_dtype)
            for length in (self._max_length, tf.shape(token_ids)[1])
        )
        *_, cross = self._model.call_decoder_with_cache(
            *source,
            tf.repeat(first, self._size)[:, None],
            self_attention_cache=own,
            self_attention_cache_update_index=0,
            cross_attention_cache=cross,
            cross_attention_cache_update_index=0,
        )
        return source, own, cross

    def _step(self, source, cross, own, tokens, parents, place):
        logits, _, own, _ = self._model.call_decoder_with_cache(
            *source,
            tokens[:, None],
            self_attention_cache=tf.gather(own, parents),
            self_attention_cache_update_index=place,
            cross_attention_cache=cross,
            cross_attention_cache_update_index=None,
        )
        log_probs = ops.log_softmax(ops.cast(logits[:, 0], "float32"))
        count = min(2 * self._size, log_probs.shape[-1])
        return own, *tf.nn.top_k(log_probs, count)


def _as_int32(values):
    return tf.convert_to_tensor(values, "int32")


class _FileReader:
    """The same for one source, with a file, which holds one state at a time."""

    def __init__(self, file, size, max_length):
        self._file, self._size = file, size

    def begin(self, token_ids, padding_mask, first):
        self._file.read_source(token_ids[0][: padding_mask[0].sum()])
        self._states = [self._file.state()] * self._size

    def step(self, tokens, parents, is_open):
        self._states = [self._states[parent] for parent in parents]
        logits = [None] * self._size
        for beam in np.flatnonzero(is_open):
            self._file.set_state(self._states[beam])
            logits[beam] = self._file.step(tokens[beam]).astype("float32")
            self._states[beam] = self._file.state()
            unread = logits[beam]  # of beams that are not open
        logits = [unread if one is None else one for one in logits]
        log_probs = scipy.special.log_softmax(logits, axis=1)
        return _best(log_probs, 2 * self._size)
