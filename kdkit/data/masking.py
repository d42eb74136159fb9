"""Masking for BERT and MASS: chooses tokens and their replacements."""

import math
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from kdkit import models
from kdkit.errors import UsageError
from kdkit.late import np, tf
from kdkit.settings import STRICT, Share


@dataclass(frozen=True, config=STRICT)
class Masking:
    """How tokens are masked for masked-language modelling.

    See Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1.
    Masks are a function of a seed. keras-hub's `MaskedLMMaskGenerator` is not
    used, because it has no seed and no whole words.

    Args:
        share: float. The share of predicted tokens. Defaults to `0.15`.
        mask_share: float. The share of predicted tokens that become `[MASK]`.
            Defaults to `0.8`.
        random_share: float. The share of predicted tokens that become a random
            token; the rest are unchanged. Defaults to `0.1`.
        whole_words: bool. Whether the pieces of a word are chosen together.
            Defaults to `False`.
        share_of: string. `"row"`: the share of each sequence's tokens without
            the first and the last, rounded. `"batch"`: the exact share of all
            tokens in a batch, rounded up, as in DistilBERT's code; some
            sequences have one prediction more than others. Defaults to
            `"row"`.

    Raises:
        ValueError: if a share is impossible, or if `share_of` is unknown or
            clashes with `whole_words`.
    """

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    mask_share: Share = 0.8
    random_share: Share = 0.1
    whole_words: bool = False
    share_of: Literal["row", "batch"] = "row"

    def __post_init__(self):
        _require_one_whole(self)
        if self.share_of == "batch" and self.whole_words:
            raise UsageError(
                "Whole words cannot have an exact share of a batch. "
                "Received: share_of='batch' and whole_words=True."
            )

    def num_predictions(self, sequence_length: int) -> int:
        """Returns the largest number of predicted tokens in a sequence."""
        if self.share_of == "batch":
            return math.ceil(self.share * sequence_length)
        return max(1, round(self.share * (sequence_length - 2)))


def _require_one_whole(masking):
    """Requires that the shares of predicted tokens are at most all of them."""
    total = masking.mask_share + masking.random_share
    if total > 1:
        raise UsageError(
            "mask_share and random_share are at most 1 together. Received: "
            f"{total}."
        )


class _Replacer:
    """Replaces tokens by the mask token, by random ones, or by themselves."""

    def __init__(self, masking, tokenizer):
        is_special = np.zeros(tokenizer.vocabulary_size(), bool)
        is_special[list(tokenizer.special_token_ids)] = True
        self.masking = masking
        self._mask_token_id = tokenizer.mask_token_id
        self._is_special = tf.constant(is_special)
        self._ordinary = tf.constant(np.flatnonzero(~is_special), "int32")

    def _replacements(self, token_ids, choice_seed, token_seed):
        """The replacements for tokens to predict."""
        draw = tf.random.stateless_uniform(tf.shape(token_ids), choice_seed)
        which = tf.random.stateless_uniform(
            tf.shape(token_ids),
            token_seed,
            maxval=tf.size(self._ordinary),
            dtype="int32",
        )
        masking = self.masking
        is_masked = draw < masking.mask_share
        is_changed = draw < masking.mask_share + masking.random_share
        changed = tf.where(
            is_masked, self._mask_token_id, tf.gather(self._ordinary, which)
        )
        return tf.where(is_changed, changed, token_ids)


class Masker(_Replacer):
    """Masks batches of sequences without padding.

    Args:
        masking: `Masking`.
        tokenizer: `kdkit.models.Tokenizer` with a mask token, or keras-hub's.
    """

    def __init__(self, masking: Masking, tokenizer):
        tokenizer = models.as_tokenizer(tokenizer)
        super().__init__(masking, tokenizer)
        if masking.whole_words:
            if tokenizer.kind != "WordPiece":
                raise UsageError("whole_words needs word pieces.")
            prefix = tokenizer.rust.model.continuing_subword_prefix
            pieces = tokenizer.get_vocabulary()
            continues = [piece.startswith(prefix) for piece in pieces]
            self._continues = tf.constant(continues)

    def __call__(self, token_ids, seed):
        """Returns `(x, y, sample_weight)` for a masked language model.

        Args:
            token_ids: `int32` tensor of shape `(batch_size, sequence_length)`.
            seed: int tensor of shape `(2,)`. The same seed and sequences give
                the same masks.

        Returns:
            `x`, a dict with `token_ids`, `segment_ids` and `padding_mask` of
            that shape and `mask_positions` of shape `(batch_size,
            num_predictions)`; `y`, the original token ids at these positions;
            and weights of the same shape, 0 for predictions that a sequence
            does not use.
        """
        seeds = tf.random.split(seed, 3)
        positions, counts = self._choose(token_ids, seeds[0])
        originals = tf.gather(token_ids, positions, batch_dims=1)
        hidden = self._replacements(originals, seeds[1], seeds[2])
        placed = tf.where(counts, hidden, originals)
        x = {
            "token_ids": _put(token_ids, positions, placed),
            "segment_ids": tf.zeros_like(token_ids),
            "padding_mask": tf.ones_like(token_ids),
            "mask_positions": positions,
        }
        return x, originals, tf.cast(counts, "float32")

    def _choose(self, token_ids, seed):
        """The positions to predict, in rising order, and which ones count."""
        budget = self.masking.num_predictions(token_ids.shape[1])
        scores = tf.random.stateless_uniform(tf.shape(token_ids), seed)
        maskable = ~tf.gather(self._is_special, token_ids)
        if self.masking.whole_words:
            # Every piece gets the score of its word's first piece.
            begins = ~tf.gather(self._continues, token_ids) | ~maskable
            word = tf.cumsum(tf.cast(begins, "int32"), axis=1)
            first = tf.argmax(
                word[:, tf.newaxis, :] == word[:, :, tf.newaxis],
                axis=2,
                output_type="int32",
            )
            scores = tf.gather(scores, first, batch_dims=1)
        scores = tf.where(maskable, scores, 2.0)  # after all others
        order = tf.argsort(scores, axis=1, stable=True)[:, : budget + 1]
        ordered = tf.gather(scores, order, batch_dims=1)
        counts = ordered[:, :budget] < 1.0
        if self.masking.whole_words:
            # A word that exceeds the budget is left out, unless it is first.
            same_as_next = ordered[:, budget - 1] == ordered[:, budget]
            cut = ordered[:, :budget] == ordered[:, budget - 1, tf.newaxis]
            cut &= same_as_next[:, tf.newaxis]
            counts &= ~cut | tf.reduce_all(cut, axis=1, keepdims=True)
        if self.masking.share_of == "batch":
            counts &= tf.range(budget) < self._budgets(token_ids, seed)
        positions = order[:, :budget]
        rising = tf.argsort(positions, axis=1)
        return (
            tf.gather(positions, rising, batch_dims=1),
            tf.gather(counts, rising, batch_dims=1),
        )

    def _budgets(self, token_ids, seed):
        """The number of predictions in each sequence, of shape `(rows, 1)`."""
        num_rows = tf.shape(token_ids)[0]
        size = tf.cast(tf.size(token_ids), "float64")
        total = tf.cast(tf.math.ceil(self.masking.share * size), "int32")
        draw = tf.random.stateless_uniform(
            (num_rows,), tf.random.fold_in(seed, 1)
        )
        rank = tf.argsort(tf.argsort(draw))
        more = tf.cast(rank < total % num_rows, "int32")
        return (total // num_rows + more)[:, tf.newaxis]


def traced_masker(masker, sequence_length: int | None = None):
    """Returns a masker as one graph, which is ten times as fast."""
    return tf.function(
        lambda token_ids, seed: masker(token_ids, seed),
        input_signature=(
            tf.TensorSpec((None, sequence_length), "int32"),
            tf.TensorSpec((2,), "int64"),
        ),
        autograph=False,
    )


def _put(token_ids, positions, values):
    """Writes values into sequences at the given positions."""
    rows = tf.broadcast_to(
        tf.range(tf.shape(positions)[0])[:, tf.newaxis], tf.shape(positions)
    )
    return tf.tensor_scatter_nd_update(
        token_ids, tf.stack([rows, positions], axis=-1), values
    )


@dataclass(frozen=True, config=STRICT)
class SpanMasking:
    """How a span is hidden for masked sequence-to-sequence training.

    See Song et al., 2019, https://arxiv.org/abs/1905.02450, sections 3.2 and
    4.1.

    Args:
        share: float. The span's share of a sentence's tokens, rounded, at least
            one token. Defaults to `0.5`, the paper's k.
        mask_share: float. The share of the span's tokens that become `<mask>`
            for the encoder. Defaults to `0.8`.
        random_share: float. The share of the span's tokens that become a random
            token; the rest are unchanged. Defaults to `0.1`.

    Raises:
        ValueError: if a share is impossible.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    mask_share: Share = 0.8
    random_share: Share = 0.1

    def __post_init__(self):
        _require_one_whole(self)


class SpanMasker(_Replacer):
    """Hides a span of each sentence in a batch.

    The decoder reads and predicts only the span, at the positions of its tokens
    in the sentence. Its first input is the sentence's language token, and then
    the tokens before the one to predict.

    Args:
        masking: `SpanMasking`.
        tokenizer: `kdkit.models.Tokenizer`.
    """

    def __init__(self, masking: SpanMasking, tokenizer):
        super().__init__(masking, tokenizer)
        self._pad_token_id = tokenizer.pad_token_id

    def __call__(self, token_ids, seed):
        """Returns `(x, y, sample_weight)` for a sequence-to-sequence model.

        Args:
            token_ids: `int32` tensor of shape `(batch_size, length)`. Each row
                is a language token, a sentence of at least one token, `</s>`,
                and padding.
            seed: int tensor of shape `(2,)`. The same seed and sentences give
                the same spans.

        Returns:
            `x`, the inputs of a `kdkit.models.MassBackbone`: the encoder's
            with the shape of `token_ids` and the decoder's with shape
            `(batch_size, longest)`, where `longest` is the length of the
            longest span, at least 2; `y`, the span's tokens; and weights of
            the same shape, 0 for padding.
        """
        seeds = tf.random.split(seed, 3)
        real = tf.cast(token_ids != self._pad_token_id, "int32")
        sentence = tf.reduce_sum(real, axis=1) - 2  # without first and last
        size, start = self._spans(sentence, seeds[0])
        # Keras warns about attention over a single position.
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
            # A token is predicted at the position before its own.
            "decoder_positions": tf.where(counts, where - 1, 0),
        }
        y = tf.where(counts, targets, self._pad_token_id)
        return x, y, tf.cast(counts, "float32")

    def span_lengths(self, lengths: "np.ndarray") -> "np.ndarray":
        """Returns the number of hidden tokens in each sentence.

        Args:
            lengths: int array of shape `(num_rows,)`. The numbers of tokens of
                sentences as `__call__` takes them, without padding.
        """
        share = np.float32(self.masking.share)
        sizes = np.round(share * (lengths - 2).astype("float32"))
        return np.maximum(sizes, 1).astype("int64")

    def _spans(self, sentence, seed):
        """The spans' sizes and first positions; the language token is at 0."""
        share = self.masking.share * tf.cast(sentence, "float32")
        size = tf.maximum(tf.cast(tf.round(share), "int32"), 1)
        draw = tf.random.stateless_uniform(tf.shape(sentence), seed)
        choices = tf.cast(sentence - size + 1, "float32")
        return size, 1 + tf.cast(draw * choices, "int32")

    def _hide(self, token_ids, start, size, seeds):
        """The encoder's tokens: `<mask>`, random or original tokens."""
        places = tf.range(tf.shape(token_ids)[1])[tf.newaxis]
        first, size = start[:, tf.newaxis], size[:, tf.newaxis]
        hidden = (places >= first) & (places < first + size)
        placed = self._replacements(token_ids, seeds[1], seeds[2])
        return tf.where(hidden, placed, token_ids)
