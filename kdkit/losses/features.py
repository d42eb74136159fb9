"""Losses that compare hidden states, embeddings or [CLS] states."""

from kdkit.late import ops
from kdkit.losses.base import (
    STATE_TAPS,
    DistillationLoss,
    append_axes,
    register_loss,
    validate_parity,
)
from kdkit.taps import VECTOR_TAPS


def unit_vectors(vectors):
    """Normalizes vectors to length 1. Zeros stay zeros, with gradient 0."""
    squared_length = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    is_zero = ops.equal(squared_length, 0)
    inverse_length = ops.rsqrt(
        ops.where(is_zero, ops.ones_like(squared_length), squared_length)
    )
    return ops.where(is_zero, ops.zeros_like(vectors), vectors * inverse_length)


@register_loss("hidden_state_mse")
class HiddenStateMSE(DistillationLoss):
    r"""Mean squared error between hidden states.

    $$\mathcal{L}_{hidn} = \mathrm{MSE}(H^S W_h, H^T)$$

    The projection $W_h$ is part of the objective; the loss receives equal
    widths. The mean is taken over units, then over the real positions.

    On the tap `"sentence_embedding"` it is the loss of Reimers & Gurevych
    between the vectors of whole texts.

    Args:
        parity: `None`, or `"tinybert"` to count padded positions too, as
            TinyBERT's code does. Defaults to `None`.
        name: string. Defaults to `"hidden_state_mse"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, sequence_length, hidden_dim)`,
            or `(batch_size, hidden_dim)` for one state per example.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(batch_size,)` or
            `(batch_size, sequence_length)`; the padding mask.

    Raises:
        UsageError: if `parity` is unknown.

    Example:

    >>> loss = kdkit.losses.HiddenStateMSE()
    >>> teacher, student = np.zeros((1, 2, 4)), np.ones((1, 2, 4))
    >>> float(loss(teacher, student, sample_weight=[[1, 0]]))
    1.0

    References:
     - [Jiao et al., 2019](https://arxiv.org/abs/1909.10351), equation 8
     - [Reimers & Gurevych, 2020](https://arxiv.org/abs/2004.09813), section 2
    """

    taps = (*STATE_TAPS, *VECTOR_TAPS)

    def __init__(self, parity=None, name="hidden_state_mse"):
        super().__init__(name=name)
        validate_parity(parity, "tinybert")
        self.parity = parity
        self.counts_padding = parity is not None

    def call(self, teacher, student):
        return ops.mean(ops.square(teacher - student), axis=-1)

    def expand_weights(self, sample_weight, values):
        if self.parity == "tinybert" and len(sample_weight.shape) == 2:
            # One weight per example: the largest of its positions.
            sample_weight = ops.max(sample_weight, axis=1)
        return append_axes(sample_weight, len(values.shape))

    def get_config(self):
        return {**super().get_config(), "parity": self.parity}


@register_loss("embedding_mse")
class EmbeddingMSE(DistillationLoss):
    r"""Mean squared error between the outputs of the embedding layers.

    $$\mathcal{L}_{embd} = \mathrm{MSE}(E^S W_e, E^T)$$

    The projection $W_e$ is part of the objective.

    Args:
        name: string. Defaults to `"embedding_mse"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, sequence_length, hidden_dim)`.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(batch_size,)` or
            `(batch_size, sequence_length)`; the padding mask.

    References:
     - [Jiao et al., 2019](https://arxiv.org/abs/1909.10351), equation 9
    """

    taps = STATE_TAPS

    def __init__(self, name="embedding_mse"):
        super().__init__(name=name)

    def call(self, teacher, student):
        return ops.mean(ops.square(teacher - student), axis=-1)


@register_loss("hidden_state_cosine")
class HiddenStateCosine(DistillationLoss):
    r"""One minus the cosine of the angle between hidden states.

    $$\mathcal{L}_{cos} = 1 - \cos(h^S, h^T)$$

    On the tap `"sentence_embedding"` it compares the vectors of whole texts.
    Between vectors of length 1 it is half their squared distance.

    Args:
        name: string. Defaults to `"hidden_state_cosine"`.

    Call arguments:
        teacher: Tensor of shape `(..., hidden_dim)`.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(...)`.

    Example:

    >>> loss = kdkit.losses.HiddenStateCosine()
    >>> float(loss([[0.0, 1.0]], [[2.0, 0.0]]))
    1.0

    References:
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 3
    """

    taps = (*STATE_TAPS, *VECTOR_TAPS)

    def __init__(self, name="hidden_state_cosine"):
        super().__init__(name=name)

    def call(self, teacher, student):
        product = unit_vectors(teacher) * unit_vectors(student)
        return 1.0 - ops.sum(product, axis=-1)


@register_loss("patience_mse")
class PatienceMSE(DistillationLoss):
    r"""Squared distance between normalized [CLS] states: the patience loss.

    $$\mathcal{L}_{PT} = \left\| \frac{h^S}{\|h^S\|_2}
        - \frac{h^T}{\|h^T\|_2} \right\|_2^2$$

    The objective sums over the mapped layers; the loss averages over the
    examples.

    Args:
        parity: `None` for the paper's sum over units, or `"pkd"` for the mean
            over units in the authors' code. Their weights $\beta$ from 10 to
            1000 belong to this mean. Defaults to `None`.
        name: string. Defaults to `"patience_mse"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, hidden_dim)`.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(batch_size,)`.

    Raises:
        UsageError: if `parity` is unknown.

    Example:

    >>> float(kdkit.losses.PatienceMSE()([[3.0, 0.0]], [[0.0, 5.0]]))
    2.0

    References:
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), equation 7
    """

    taps = STATE_TAPS

    def __init__(self, parity=None, name="patience_mse"):
        super().__init__(name=name)
        validate_parity(parity, "pkd")
        self.parity = parity

    def call(self, teacher, student):
        difference = unit_vectors(teacher) - unit_vectors(student)
        reduce = ops.mean if self.parity == "pkd" else ops.sum
        return reduce(ops.square(difference), axis=-1)

    def get_config(self):
        return {**super().get_config(), "parity": self.parity}
