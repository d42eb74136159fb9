"""Losses that compare attention matrices or self-attention relations."""

from kdkit.errors import unknown
from kdkit.late import ops
from kdkit.losses.base import (
    DistillationLoss,
    append_axes,
    register_loss,
    safe_divide,
    validate_parity,
)
from kdkit.taps import ATTENTION_TAPS, VECTOR_TAPS

# TinyBERT's code treats scores up to this value as those of padded keys.
MASKED_SCORE = -100.0
MEANS = ("texts", "positions")


@register_loss("attention_mse")
class AttentionMSE(DistillationLoss):
    r"""Mean squared error between attention matrices.

    $$\mathcal{L}_{attn} = \frac{1}{h} \sum_{i=1}^h
        \mathrm{MSE}(A^S_i, A^T_i)$$

    The mean is taken over the heads and over all pairs of a query and a key
    that are both real positions. TinyBERT compares the matrices before the
    softmax: use the tap `"attention_logits"`.

    Args:
        parity: `None`, or `"tinybert"` to reduce as the authors' code does:
            scores of -100 or less are replaced by 0 on both sides, padded
            keys add nothing to the sum, and the denominator counts every
            query and key, padding included. Defaults to `None`.
        name: string. Defaults to `"attention_mse"`.

    Call arguments:
        teacher: Tensor of shape
            `(batch_size, num_heads, query_length, key_length)`.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(batch_size,)`,
            `(batch_size, sequence_length)`, or broadcastable to four axes.
            Weights per position multiply the queries. A position of weight 0
            is not counted as a key either.

    Raises:
        UsageError: if `parity` is unknown.

    Example:

    >>> loss = kdkit.losses.AttentionMSE()
    >>> teacher, student = np.zeros((1, 1, 2, 2)), np.ones((1, 1, 2, 2))
    >>> float(loss(teacher, student, sample_weight=[[1, 0]]))
    1.0

    References:
     - [Jiao et al., 2019](https://arxiv.org/abs/1909.10351), equation 7
    """

    taps = ATTENTION_TAPS

    def __init__(self, parity=None, name="attention_mse"):
        super().__init__(name=name)
        validate_parity(parity, "tinybert")
        self.parity = parity
        self.counts_padding = parity is not None

    def call(self, teacher, student):
        if self.parity is not None:
            teacher, student = map(_without_masked, (teacher, student))
        return ops.square(teacher - student)

    def reduce(self, values, sample_weight):
        positions = sample_weight is not None and len(sample_weight.shape) == 2
        if self.parity is None or not positions:
            return super().reduce(values, sample_weight)
        real_keys = ops.cast(sample_weight[:, None, None, :] != 0, self.dtype)
        examples = ops.max(sample_weight, axis=1)[:, None, None, None]
        counted = ops.broadcast_to(examples, ops.shape(values))
        return ops.sum(values * real_keys * examples), ops.sum(counted)

    def expand_weights(self, sample_weight, values):
        if len(sample_weight.shape) == 2:
            real_keys = ops.cast(sample_weight != 0, self.dtype)
            # (batch, 1, query, 1) × (batch, 1, 1, key)
            return sample_weight[:, None, :, None] * real_keys[:, None, None, :]
        return append_axes(sample_weight, len(values.shape))

    def get_config(self):
        return {**super().get_config(), "parity": self.parity}


@register_loss("relation_kl_divergence")
class RelationKLDivergence(DistillationLoss):
    r"""KL divergence between self-attention relations (MiniLMv2).

    The vectors of all heads are concatenated and split again into $A_r$
    relation heads of width $d_r$:

    $$\mathcal{L} = \frac{1}{A_r |x|} \sum_{a, t} \mathrm{KL}\!\left(
        \mathrm{softmax}\tfrac{Q^T_a {Q^T_a}^\top}{\sqrt{d^T_r}} \Big\|
        \mathrm{softmax}\tfrac{Q^S_a {Q^S_a}^\top}{\sqrt{d^S_r}} \right)_t$$

    for queries, and the same for keys and for values. $|x|$ is the length of
    a text without its padding. The loss of a batch is the mean over its
    texts. Teacher and student may have different widths and different
    numbers of heads.

    Args:
        num_relation_heads: int. The number $A_r$ of relation heads, a divisor
            of both widths. Defaults to `12`.
        name: string. Defaults to `"relation_kl_divergence"`.
        mean_over: string. With `"texts"`, as in the paper, every text has
            the same weight. With `"positions"` the mean is taken over all
            positions in the batch, as in kdkit's other losses per position,
            so longer texts weigh more. Defaults to `"texts"`.

    Call arguments:
        teacher: Tensor of shape
            `(batch_size, sequence_length, num_heads, head_dim)`.
        student: Tensor of shape `(batch_size, sequence_length, ...)`, of any
            width.
        sample_weight: Tensor of shape `(batch_size,)` or
            `(batch_size, sequence_length)`. The softmax excludes positions
            of weight 0 as well. With `mean_over="texts"`, weights per
            position are relative within a text, and the text's own weight is
            the largest of them.

    Raises:
        UsageError: if `mean_over` is unknown.

    References:
     - [Wang et al., 2020](https://arxiv.org/abs/2012.15828), equations 6 to 8
    """

    taps = VECTOR_TAPS

    needs_same_width = False

    def __init__(
        self,
        num_relation_heads=12,
        name="relation_kl_divergence",
        mean_over="texts",
    ):
        super().__init__(name=name)
        if mean_over not in MEANS:
            raise unknown("mean_over", mean_over, MEANS)
        self.num_relation_heads = num_relation_heads
        self.mean_over = mean_over

    def weighted_sums(self, teacher, student, sample_weight):
        positions = sample_weight is not None and len(sample_weight.shape) == 2
        real = sample_weight != 0 if positions else None
        log_teacher = self._log_relation(teacher, real)
        log_student = self._log_relation(student, real)
        values = ops.sum(
            ops.exp(log_teacher) * (log_teacher - log_student), axis=-1
        )  # (batch, heads, query)
        weights = sample_weight
        if weights is None:
            weights = ops.ones_like(values[:, 0, 0])
        if len(weights.shape) == 1:
            weights = weights[:, None]
        if len(weights.shape) == 2:
            weights = ops.broadcast_to(weights, ops.shape(values[:, 0]))
            if self.mean_over == "texts":
                weights = _normalize_per_text(weights)
            weights = weights[:, None, :]
        weights = append_axes(weights, 3)
        weights = ops.broadcast_to(weights, ops.shape(values))
        return ops.sum(values * weights), ops.sum(weights)

    def _log_relation(self, vectors, real):
        width = 1
        for size in vectors.shape[2:]:
            width *= size
        head_dim = width // self.num_relation_heads
        batch_size, length = ops.shape(vectors)[:2]
        vectors = ops.reshape(
            vectors, (batch_size, length, self.num_relation_heads, head_dim)
        )
        relation = ops.einsum("bqad,bkad->baqk", vectors, vectors)
        relation = relation / head_dim**0.5
        if real is not None:
            # Large but finite, so that the softmax over a row that is only
            # padding contains no NaN.
            relation = ops.where(real[:, None, None, :], relation, -1e9)
        return ops.log_softmax(relation)

    def get_config(self):
        return {
            **super().get_config(),
            "num_relation_heads": self.num_relation_heads,
            "mean_over": self.mean_over,
        }


def _without_masked(scores):
    """Sets scores to 0 that the authors' code treats as masked."""
    return ops.where(scores <= MASKED_SCORE, ops.zeros_like(scores), scores)


def _normalize_per_text(weights):
    """Scales weights per position so that each text's weights add up to its
    own weight.
    """
    of_text = ops.max(weights, axis=1, keepdims=True)
    return of_text * safe_divide(
        weights, ops.sum(weights, axis=1, keepdims=True)
    )
