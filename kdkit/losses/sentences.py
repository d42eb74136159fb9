"""Losses between sentence embeddings, and between the scores of candidates."""

import math

from kdkit.errors import UsageError
from kdkit.late import ops
from kdkit.losses.base import (
    DistillationLoss,
    append_axes,
    get_loss,
    register_loss,
    require_same_shape,
)
from kdkit.losses.features import unit_vectors
from kdkit.losses.logits import validate_temperature
from kdkit.taps import SENTENCE_EMBEDDING

# In effect infinite, but finite: a row that is only padding contains no NaN.
EXCLUDED = -1e9


class _BatchLoss(DistillationLoss):
    """Base class for losses that compare the texts of a batch.

    A subclass has a `compare(teacher, student, real, others)`, which returns
    one value per text.
    """

    taps = (SENTENCE_EMBEDDING,)

    def __init__(self, temperature, name):
        super().__init__(name=name)
        validate_temperature(temperature)
        self.temperature = temperature

    def weighted_sums(self, teacher, student, sample_weight):
        if self.needs_same_width:
            require_same_shape(teacher, student, self.name)
        if sample_weight is None:
            weights = ops.ones_like(student[:, 0])
        else:
            weights = append_axes(sample_weight, 1)
        same = ops.eye(ops.shape(student)[0], dtype="bool")
        real = ops.broadcast_to((weights != 0)[None, :], ops.shape(same))
        others = ops.logical_and(real, ops.logical_not(same))
        weights = weights * ops.cast(ops.any(others, axis=-1), self.dtype)
        values = self.compare(teacher, student, real, others)
        return ops.sum(values * weights), ops.sum(weights)

    def _log_probs(self, rows, columns, compared):
        """Returns the log-softmax of cosines over the compared columns."""
        cosines = ops.matmul(
            unit_vectors(rows), ops.transpose(unit_vectors(columns))
        )
        return ops.log_softmax(
            ops.where(compared, cosines / self.temperature, EXCLUDED)
        )

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature}


@register_loss("similarity_kl_divergence")
class SimilarityKLDivergence(_BatchLoss):
    r"""KL divergence between the similarities of the texts of a batch.

    $$\mathcal{L} = \frac{1}{B} \sum_i \sum_{j \ne i}
        p^T_{ij} \, (\log p^T_{ij} - \log p^S_{ij}), \qquad
        p_{ij} = \frac{\exp(\cos(h_i, h_j) / \tau)}
            {\sum_{k \ne i} \exp(\cos(h_i, h_k) / \tau)}$$

    Only the similarities within each model are compared, so teacher and student
    may have different widths. $p$ is the conditional probability of Passalis &
    Tefas with a Gaussian kernel between vectors of length 1, whose variance is
    $\tau$.

    A batch is what one device computes at once: with several replicas, or with
    gradient accumulation, a text is compared with the texts of its own part.

    Args:
        temperature: float. The temperature $\tau$, applied to both sides. A
            lower one gives more weight to the most similar texts. Defaults to
            `0.05`.
        name: string. Defaults to `"similarity_kl_divergence"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, teacher_dim)`.
        student: Tensor of shape `(batch_size, student_dim)`.
        sample_weight: Tensor of shape `(batch_size,)`. Texts of weight 0 are
            in no sum, neither as $i$ nor as $j$. Texts without another text
            do not count.

    Raises:
        UsageError: if `temperature` is not positive.

    Example:

    >>> loss = kdkit.losses.SimilarityKLDivergence()
    >>> teacher = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
    >>> turned = [[0.0, 2.0, 0.0], [0.0, 1.6, 1.2], [0.0, 0.0, 2.0]]
    >>> round(abs(float(loss(teacher, turned))), 4)
    0.0

    References:
     - [Passalis & Tefas, 2018](https://arxiv.org/abs/1803.10837)
     - [Fang et al., 2021](https://arxiv.org/abs/2101.04731), with the
       teacher's vectors of earlier examples instead of the batch
    """

    needs_same_width = False

    def __init__(self, temperature=0.05, name="similarity_kl_divergence"):
        super().__init__(temperature, name)

    def compare(self, teacher, student, real, others):
        log_teacher = self._log_probs(teacher, teacher, others)
        log_student = self._log_probs(student, student, others)
        return ops.sum(
            ops.exp(log_teacher) * (log_teacher - log_student), axis=-1
        )


@register_loss("in_batch_contrastive")
class InBatchContrastive(_BatchLoss):
    r"""Cross-entropy of each text's own partner among all texts of the batch.

    $$\mathcal{L} = -\frac{1}{B} \sum_i \log
        \frac{\exp(\cos(a_i, b_i) / \tau)}
            {\sum_j \exp(\cos(a_i, b_j) / \tau)}$$

    $a_i$ and $b_i$ are two vectors of one text or of a pair: a student's with
    two dropout masks (SimCSE), a query and its document, or, in an objective, a
    teacher's and a student's. The $b_j$ of other texts are the negatives.
    Equal vectors do not minimise this loss: it also moves texts apart.

    A batch is what one device computes at once: with several replicas, or with
    gradient accumulation, the negatives are those of a text's own part. Equal
    texts in a batch are each other's negatives.

    Args:
        temperature: float. The temperature $\tau$. Defaults to `0.05`.
        symmetric: bool. Whether to average with the same loss for exchanged
            $a$ and $b$. Defaults to `False`.
        name: string. Defaults to `"in_batch_contrastive"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, dimensions)`. The vectors $a_i$.
        student: Tensor of the same shape. The vectors $b_i$.
        sample_weight: Tensor of shape `(batch_size,)`. Texts of weight 0 are
            in no sum, neither as $i$ nor as $j$. Texts without another text
            do not count.

    Raises:
        UsageError: if `temperature` is not positive.

    Example:

    >>> loss = kdkit.losses.InBatchContrastive(temperature=1.0)
    >>> round(float(loss(np.eye(2), 5 * np.eye(2))), 4)
    0.3133

    References:
     - [Gao et al., 2021](https://arxiv.org/abs/2104.08821)
    """

    def __init__(
        self, temperature=0.05, symmetric=False, name="in_batch_contrastive"
    ):
        super().__init__(temperature, name)
        self.symmetric = symmetric

    def compare(self, teacher, student, real, others):
        values = -ops.diagonal(self._log_probs(teacher, student, real))
        if self.symmetric:
            exchanged = self._log_probs(student, teacher, real)
            values = (values - ops.diagonal(exchanged)) / 2
        return values

    def get_config(self):
        return {**super().get_config(), "symmetric": self.symmetric}


@register_loss("margin_mse")
class MarginMSE(DistillationLoss):
    r"""Mean squared error between the margins of a query's candidates.

    $$\mathcal{L} = \frac{1}{C - 1} \sum_{c=1}^{C-1}
        \left[ (z^T_0 - z^T_c) - (z^S_0 - z^S_c) \right]^2$$

    The logits are the scores of the $C$ candidates of one query; candidate 0
    is the relevant one. Only differences of scores are compared, so a student
    whose scores are dot products can learn from a cross-encoder. To compare the
    distribution over all candidates instead (listwise), use
    `LogitKLDivergence`.

    Args:
        name: string. Defaults to `"margin_mse"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, num_candidates)`. Scores.
        student: Tensor of the same shape. Scores.
        sample_weight: Tensor of shape `(batch_size,)`.

    Example:

    >>> float(kdkit.losses.MarginMSE()([[9.0, 4.0]], [[3.0, 1.0]]))
    9.0

    References:
     - [Hofstätter et al., 2020](https://arxiv.org/abs/2010.02666), with one
       other candidate
    """

    taps = ("logits",)

    min_classes = 2

    def __init__(self, name="margin_mse"):
        super().__init__(name=name)

    def call(self, teacher, student):
        teacher, student = (
            scores[..., :1] - scores[..., 1:] for scores in (teacher, student)
        )
        return ops.mean(ops.square(teacher - student), axis=-1)


@register_loss("matryoshka")
class Matryoshka(DistillationLoss):
    r"""Another loss at several widths: the first dimensions of each vector.

    $$\mathcal{L} = \sum_{m \in \mathcal{M}} c_m \,
        \mathcal{L}(h^T_{1:m}, h^S_{1:m})$$

    After training, the first $m$ dimensions of the student's vector are a
    sentence embedding too. `HiddenStateCosine` and `HiddenStateMSE` compare
    prefixes of equal width, so the student's prefixes become as good as the
    teacher's: rotate the teacher's vectors to their principal components first
    (`kdkit.models.reduce_width`). `SimilarityKLDivergence` compares the
    student's prefix with the teacher's full vector, $h^T$ instead of
    $h^T_{1:m}$.

    Args:
        loss: `kdkit.losses.DistillationLoss` for sentence embeddings, or its
            name or configuration as in `kdkit.losses.get_loss`.
        dimensions: sequence of ints. The widths $\mathcal{M}$. None may be
            larger than the student's. Defaults to `(384, 256, 128, 64)`.
        weights: sequence of floats, the factors $c_m$. `None` means 1 for
            each. Defaults to `None`.
        name: string. Defaults to `"matryoshka"`.

    Call arguments:
        teacher: Tensor of shape `(batch_size, teacher_dim)`.
        student: Tensor of shape `(batch_size, student_dim)`. Both widths are
            equal, unless the loss accepts different widths.
        sample_weight: Tensor of shape `(batch_size,)`.

    Raises:
        UsageError: if a width or a weight is not above 0, the loss does not
            compare sentence embeddings, or the student's vectors are narrower
            than the largest width.

    Example:

    >>> loss = kdkit.losses.Matryoshka("hidden_state_mse", dimensions=(4, 2))
    >>> float(loss([[0.0, 0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0, 0.0]]))
    1.5

    References:
     - [Kusupati et al., 2022](https://arxiv.org/abs/2205.13147), with a
       cross-entropy and a dense layer of classes at each width
    """

    taps = (SENTENCE_EMBEDDING,)

    def __init__(
        self,
        loss,
        dimensions=(384, 256, 128, 64),
        weights=None,
        name="matryoshka",
    ):
        super().__init__(name=name)
        self.loss = get_loss(loss)
        self.dimensions = tuple(dimensions)
        self.weights = weights if weights is None else tuple(weights)
        self.needs_same_width = self.loss.needs_same_width
        if (
            self.loss.taps is not None
            and SENTENCE_EMBEDDING not in self.loss.taps
        ):
            raise UsageError(
                f"{type(self.loss).__name__} does not compare sentence "
                "embeddings."
            )
        for number in (*self.dimensions, *(self.weights or ())):
            if not 0 < number < math.inf:
                raise UsageError(
                    "Widths and weights must be above 0 and finite, received "
                    f"{number}."
                )

    def weighted_sums(self, teacher, student, sample_weight):
        if self.needs_same_width:
            require_same_shape(teacher, student, self.name)
        if student.shape[-1] < max(self.dimensions):
            raise UsageError(
                f"The loss {self.name!r} compares prefixes of the widths "
                f"{self.dimensions}, received vectors of {student.shape[-1]}."
            )
        sums = []
        for width in self.dimensions:
            known = teacher[..., :width] if self.needs_same_width else teacher
            sums.append(
                self.loss.weighted_sums(
                    known, student[..., :width], sample_weight
                )
            )
        weights = self.weights or (1.0,) * len(sums)
        numerators, denominators = zip(*sums, strict=True)
        # The weights of the texts, and so their sums, are the same at each
        # width.
        total = sum(
            weight * top
            for weight, top in zip(weights, numerators, strict=True)
        )
        return total, denominators[0]

    def get_config(self):
        return {
            **super().get_config(),
            "loss": self.loss.to_setting(),
            "dimensions": list(self.dimensions),
            "weights": self.weights and list(self.weights),
        }
