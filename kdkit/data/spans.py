"""MASS's masking: one span of a sentence is hidden from the encoder."""

import dataclasses

import numpy as np

from kdkit.backends import tf
from kdkit.data.masking import hide
from kdkit.data.masking import special_tokens
from kdkit.errors import UsageError


@dataclasses.dataclass(frozen=True)
class SpanMasking:
    """How a span is hidden for masked sequence-to-sequence modelling.

    Song et al., 2019, https://arxiv.org/abs/1905.02450, sections 3.2 and 4.1.

    Args:
        share: float. Part of a sentence's tokens that the span has, rounded,
            at least one token. Defaults to `0.5`, the paper's k.
        mask_share: float. Part of its tokens that becomes `<mask>` for the
            encoder. Defaults to `0.8`.
        random_share: float. Part of them that becomes a random token; the rest
            stays as it is. Defaults to `0.1`.

    Raises:
        UsageError: (a `ValueError`) if a share is impossible.
    """

    share: float = 0.5
    mask_share: float = 0.8
    random_share: float = 0.1

    def __post_init__(self):
        shares = (self.mask_share, self.random_share)
        if not 0 < self.share <= 1 or min(shares) < 0 or sum(shares) > 1:
            raise UsageError(
                "Impossible masking. Expected 0 < share <= 1 and mask_share "
                "and random_share of at least 0 and together at most 1. "
                f"Received: share={self.share}, mask_share={self.mask_share}, "
                f"random_share={self.random_share}."
            )


class SpanMasker:
    """Hides a span of each row of a batch inside `tf.data`.

    The decoder sees and predicts the span alone, at the places that its tokens
    have in the sentence: its first input is the row's own first token, which
    names the language, and then what it has predicted.

    Args:
        masking: `SpanMasking`.
        tokenizer: `kdkit.models.MassTokenizer`.
    """

    def __init__(self, masking: SpanMasking, tokenizer):
        self._masking = masking
        self._pad_token_id = tokenizer.pad_token_id
        self._mask_token_id = tokenizer.mask_token_id
        ordinary = np.flatnonzero(~special_tokens(tokenizer))
        self._ordinary = tf.constant(ordinary, "int32")

    def __call__(self, token_ids, seed):
        """Returns `(x, y, sample_weight)` of a sequence-to-sequence model.

        Args:
            token_ids: `int32` tensor of shape `(batch_size, length)`. Each row
                is the token of its language, a sentence of at least one token,
                `</s>`, and padding.
            seed: int tensor of shape `(2,)`. The same seed and rows give the
                same spans.

        Returns:
            `x`, the inputs of a `kdkit.models.MassBackbone`, the encoder's of
            the shape of `token_ids` and the decoder's of shape `(batch_size,
            longest)`, where `longest` is that of the longest span, or 2; `y`,
            the span's tokens; and weights of the same shape, 0 for padding.
        """
        seeds = tf.random.split(seed, 3)
        real = tf.cast(token_ids != self._pad_token_id, "int32")
        sentence = tf.reduce_sum(real, axis=1) - 2  # without first and last
        size, start = self._spans(sentence, seeds[0])
        # Attention over a single place is no choice, of which Keras warns.
        places = tf.range(tf.maximum(tf.reduce_max(size), 2))[tf.newaxis]
        counts = places < size[:, tf.newaxis]
        where = tf.where(counts, start[:, tf.newaxis] + places, 0)
        targets = tf.gather(token_ids, where, batch_dims=1)
        before = tf.concat([token_ids[:, :1], targets[:, :-1]], axis=1)
        real_places = tf.cast(counts, "int32")
        x = {
            "encoder_token_ids": self._hide(token_ids, start, size, seeds),
            "encoder_padding_mask": real,
            "decoder_token_ids": tf.where(counts, before, self._pad_token_id),
            "decoder_padding_mask": real_places,
            # A token is predicted at the place before its own.
            "decoder_positions": tf.where(counts, where - 1, 0),
        }
        y = tf.where(counts, targets, self._pad_token_id)
        return x, y, tf.cast(counts, "float32")

    def span_lengths(self, lengths: np.ndarray) -> np.ndarray:
        """Returns how many tokens of rows are hidden.

        Args:
            lengths: int array of shape `(num_rows,)`. Tokens of rows as
                `__call__` takes them, without padding.
        """
        share = np.float32(self._masking.share)
        sizes = np.round(share * (lengths - 2).astype("float32"))
        return np.maximum(sizes, 1).astype("int64")

    def _spans(self, sentence, seed):
        """Sizes of the spans and their first places, the language's being 0."""
        share = self._masking.share * tf.cast(sentence, "float32")
        size = tf.maximum(tf.cast(tf.round(share), "int32"), 1)
        draw = tf.random.stateless_uniform(tf.shape(sentence), seed)
        choices = tf.cast(sentence - size + 1, "float32")
        return size, 1 + tf.cast(draw * choices, "int32")

    def _hide(self, token_ids, start, size, seeds):
        """The encoder's tokens: `<mask>`, random ones, or themselves."""
        places = tf.range(tf.shape(token_ids)[1])[tf.newaxis]
        first, size = start[:, tf.newaxis], size[:, tf.newaxis]
        hidden = (places >= first) & (places < first + size)
        placed = hide(
            token_ids,
            self._masking,
            self._mask_token_id,
            self._ordinary,
            seeds[1],
            seeds[2],
        )
        return tf.where(hidden, placed, token_ids)
