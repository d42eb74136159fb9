"""Losses that compare logits: cross-entropy, KL divergence, squared error."""

import math

from kdkit.errors import UsageError
from kdkit.late import ops
from kdkit.losses.base import DistillationLoss, register_loss, validate_parity


def validate_temperature(temperature):
    """Raises a `UsageError` unless `temperature` is finite and positive."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise UsageError(
            f"`temperature` must be above 0 and finite, received {temperature}."
        )


@register_loss("soft_cross_entropy")
class SoftCrossEntropy(DistillationLoss):
    r"""Cross-entropy of the student against the teacher's soft labels.

    $$\mathcal{L} = -\sum_c \mathrm{softmax}(z^T / T)_c \,
        \log \mathrm{softmax}(z^S / T)_c$$

    The gradient is that of `LogitKLDivergence` without the factor $T^2$. The
    minimum is the teacher's entropy, not 0; `kdkit.Distiller` logs the value
    minus that entropy.

    Args:
        temperature: float. The temperature $T$ (TinyBERT's $t$), applied to
            both sides. Defaults to `1.0`.
        scale_by_temperature_squared: bool. Whether to multiply by $T^2$, so
            that the gradient's size does not change with the temperature
            (Hinton et al., section 2.1). Defaults to `False`, as in TinyBERT
            and PKD.
        parity: `None`, or `"tinybert"` to average over the classes as well,
            as the authors' code of TinyBERT does. Defaults to `None`.
        name: string. Defaults to `"soft_cross_entropy"`.

    Call arguments:
        teacher: Tensor of shape `(..., num_classes)`. Logits.
        student: Tensor of the same shape. Logits.
        sample_weight: Tensor of shape `(...)`.

    Raises:
        UsageError: if `temperature` is not positive or `parity` is unknown.

    Example:

    >>> loss = kdkit.losses.SoftCrossEntropy()
    >>> round(float(loss([[0.0, 0.0]], [[0.0, 0.0]])), 4)
    0.6931

    References:
     - [Jiao et al., 2019](https://arxiv.org/abs/1909.10351), equation 10
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), equation 3
     - [Hinton et al., 2015](https://arxiv.org/abs/1503.02531)
    """

    taps = ("logits",)

    min_classes = 2
    has_entropy = True

    def __init__(
        self,
        temperature=1.0,
        scale_by_temperature_squared=False,
        parity=None,
        name="soft_cross_entropy",
    ):
        super().__init__(name=name)
        validate_temperature(temperature)
        validate_parity(parity, "tinybert")
        self.temperature = temperature
        self.scale_by_temperature_squared = scale_by_temperature_squared
        self.parity = parity

    def call(self, teacher, student):
        soft_labels = ops.softmax(teacher / self.temperature)
        values = -ops.sum(
            soft_labels * ops.log_softmax(student / self.temperature), axis=-1
        )
        if self.scale_by_temperature_squared:
            values *= self.temperature**2
        if self.parity == "tinybert":
            values /= teacher.shape[-1]
        return values

    def get_config(self):
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "scale_by_temperature_squared": self.scale_by_temperature_squared,
            "parity": self.parity,
        }


@register_loss("soft_binary_cross_entropy")
class SoftBinaryCrossEntropy(DistillationLoss):
    r"""Binary cross-entropy against the teacher's soft labels, class by class.

    For multi-label classification, where each class has its own yes-or-no
    label and the logits pass through a sigmoid:

    $$\mathcal{L} = -\frac{1}{C} \sum_c \left[ p^T_c \log p^S_c
        + (1 - p^T_c) \log (1 - p^S_c) \right], \qquad
        p = \sigma(z / T)$$

    The loss averages over classes, as Keras' `BinaryCrossentropy` on the
    labels does, so that one weight has the same meaning for soft labels and
    true labels. The gradient is that of the binary KL divergence. The minimum
    is the teacher's mean binary entropy, not 0; `kdkit.Distiller` logs the
    value minus that entropy.

    Args:
        temperature: float. The temperature $T$, applied to both sides.
            Defaults to `1.0`.
        scale_by_temperature_squared: bool. Whether to multiply by $T^2$, so
            that the gradient's size does not change with the temperature.
            Defaults to `False`.
        name: string. Defaults to `"soft_binary_cross_entropy"`.

    Call arguments:
        teacher: Tensor of shape `(..., num_classes)`. Logits.
        student: Tensor of the same shape. Logits.
        sample_weight: Tensor of shape `(...)`.

    Raises:
        UsageError: if `temperature` is not positive.

    Example:

    >>> loss = kdkit.losses.SoftBinaryCrossEntropy()
    >>> round(float(loss([[0.0, 0.0]], [[0.0, 0.0]])), 4)
    0.6931

    References:
     - [Hinton et al., 2015](https://arxiv.org/abs/1503.02531)
     - [Yang et al., 2023](https://arxiv.org/abs/2308.06453), which sums over
       the classes
    """

    taps = ("logits",)

    has_entropy = True

    def __init__(
        self,
        temperature=1.0,
        scale_by_temperature_squared=False,
        name="soft_binary_cross_entropy",
    ):
        super().__init__(name=name)
        validate_temperature(temperature)
        self.temperature = temperature
        self.scale_by_temperature_squared = scale_by_temperature_squared

    def call(self, teacher, student):
        soft_labels = ops.sigmoid(teacher / self.temperature)
        logits = student / self.temperature
        # -p log σ(z) - (1 - p) log(1 - σ(z)) = softplus(z) - p z
        values = ops.mean(ops.softplus(logits) - soft_labels * logits, axis=-1)
        if self.scale_by_temperature_squared:
            values *= self.temperature**2
        return values

    def get_config(self):
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "scale_by_temperature_squared": self.scale_by_temperature_squared,
        }


@register_loss("logit_kl_divergence")
class LogitKLDivergence(DistillationLoss):
    r"""Kullback-Leibler divergence from the teacher's soft labels, times $T^2$.

    $$\mathcal{L} = T^2 \sum_c p^T_c (\log p^T_c - \log p^S_c), \qquad
        p = \mathrm{softmax}(z / T)$$

    If the logits are the scores of one query's candidates, this is the listwise
    loss for rankings. `MarginMSE` compares their differences instead.

    Args:
        temperature: float. The temperature $T$. Defaults to `1.0`.
        parity: `None`, or `"pkd"` to average over the classes instead of
            summing, as the authors' code of Patient KD does. Defaults to
            `None`.
        top_k: int or `None`. How many of the teacher's most probable classes
            are compared one by one. All other classes are merged into one,
            with the sum of their probabilities. The result is never larger
            than the full divergence, and a teacher cache stores only these
            classes. `None` compares every class. Defaults to `None`.
        name: string. Defaults to `"logit_kl_divergence"`.

    Call arguments:
        teacher: Tensor of shape `(..., num_classes)`. Logits.
        student: Tensor of the same shape. Logits.
        sample_weight: Tensor of shape `(...)`.

    Raises:
        UsageError: if `temperature` is not positive, `parity` is unknown or
            `top_k` is not above 0.

    Example:

    >>> loss = kdkit.losses.LogitKLDivergence(temperature=2.0)
    >>> float(loss([[1.0, 3.0]], [[1.0, 3.0]]))
    0.0

    References:
     - [Hinton et al., 2015](https://arxiv.org/abs/1503.02531)
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108)
    """

    taps = ("logits",)

    min_classes = 2

    def __init__(
        self,
        temperature=1.0,
        parity=None,
        top_k=None,
        name="logit_kl_divergence",
    ):
        super().__init__(name=name)
        validate_temperature(temperature)
        validate_parity(parity, "pkd")
        if top_k is not None and not (isinstance(top_k, int) and top_k > 0):
            raise UsageError(
                "`top_k` must be an integer above 0, or None for all classes, "
                f"received {top_k!r}."
            )
        self.temperature = temperature
        self.parity = parity
        self.top_k = top_k

    def call(self, teacher, student):
        if self.top_k is not None and self.top_k < teacher.shape[-1]:
            top = top_classes(teacher, self.top_k, self.temperature)
            return self._on_top(top, student)
        return self._divergence(
            ops.log_softmax(teacher / self.temperature),
            ops.log_softmax(student / self.temperature),
            teacher.shape[-1],
        )

    def top_sums(self, top, student, sample_weight=None):
        """Returns the same sums as `sums`, from the teacher's top classes.

        Args:
            top: Tensor of shape `(..., 2 * top_k + 1)`, the result of
                `kdkit.losses.top_classes` with this loss's `top_k` and
                temperature.
            student: Tensor of shape `(..., num_classes)`. Logits.
            sample_weight: Tensor of shape `(...)`, or `None`.
        """
        top = ops.convert_to_tensor(top, dtype=self.dtype)
        student = ops.convert_to_tensor(student, dtype=self.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(
                sample_weight, dtype=self.dtype
            )
        return self.reduce(self._on_top(top, student), sample_weight)

    def _on_top(self, top, student):
        log_teacher, ids = split_top_classes(top)
        log_student = class_log_probs(student / self.temperature, ids)
        return self._divergence(log_teacher, log_student, student.shape[-1])

    def _divergence(self, log_teacher, log_student, num_classes):
        values = ops.sum(
            ops.exp(log_teacher) * (log_teacher - log_student), axis=-1
        )
        if self.parity == "pkd":
            values /= num_classes
        return values * self.temperature**2

    def get_config(self):
        return {
            **super().get_config(),
            "temperature": self.temperature,
            "parity": self.parity,
            "top_k": self.top_k,
        }


@register_loss("logit_mse")
class LogitMSE(DistillationLoss):
    r"""Mean squared error between logits.

    $$\mathcal{L} = \frac{1}{C} \sum_c (z^T_c - z^S_c)^2$$

    The distillation loss for regression, where the only logit is the score.

    Args:
        name: string. Defaults to `"logit_mse"`.

    Call arguments:
        teacher: Tensor of shape `(..., num_classes)`. Logits.
        student: Tensor of the same shape. Logits.
        sample_weight: Tensor of shape `(...)`.

    Example:

    >>> float(kdkit.losses.LogitMSE()([[1.0, 2.0]], [[1.0, 4.0]]))
    2.0

    References:
     - [Tang et al., 2019](https://arxiv.org/abs/1903.12136)
    """

    taps = ("logits",)

    def __init__(self, name="logit_mse"):
        super().__init__(name=name)

    def call(self, teacher, student):
        return ops.mean(ops.square(teacher - student), axis=-1)


# The log-probability of an impossible class: exp() of it is 0 in float32, and
# it is finite.
IMPOSSIBLE = -1e4


def top_classes(logits, top_k: int, temperature: float = 1.0):
    """Returns the log-probabilities of the most probable classes.

    If classes are equally probable, the ones with lower numbers come first; on
    PyTorch any of them.

    Args:
        logits: Tensor of shape `(..., num_classes)`.
        top_k: int. How many classes to return. With `num_classes` or more,
            all are returned.
        temperature: float. The logits are divided by it. Defaults to `1.0`.

    Returns:
        `float32` tensor of shape `(..., 2 * top_k + 1)`: the log-probabilities
        of the top classes, the log-probability of all other classes together,
        and the numbers of the top classes, which are exact up to 2²⁴. If there
        are no other classes, their log-probability is −10,000.

    >>> top_classes([[0.0, 50.0, 0.0]], top_k=1).shape
    TensorShape([1, 3])
    """
    logits = ops.convert_to_tensor(logits, dtype="float32") / temperature
    first, ids = ops.top_k(logits, min(top_k, logits.shape[-1]))
    return ops.concatenate(
        [_with_others(first, logits, ids), ops.cast(ids, "float32")], axis=-1
    )


def split_top_classes(top):
    """The log-probabilities of k + 1 classes, and the k class numbers."""
    count = top.shape[-1] // 2
    log_probs = ops.log_softmax(top[..., : count + 1])
    return log_probs, ops.cast(top[..., count + 1 :], "int32")


def class_log_probs(logits, ids):
    """The log-probabilities of some classes, and of all others as one."""
    first = ops.take_along_axis(logits, ids, axis=-1)
    return _with_others(first, logits, ids)


def _with_others(first, logits, ids):
    """The log-probabilities of the top classes and all others as one."""
    others = _others_logit(logits, ids)
    return ops.log_softmax(ops.concatenate([first, others], axis=-1))


def _others_logit(logits, ids):
    """Returns one logit for all classes not in `ids`, shape `(..., 1)`."""
    num_classes, count = logits.shape[-1], ids.shape[-1]
    nothing = ops.stop_gradient(
        ops.max(logits, axis=-1, keepdims=True) + IMPOSSIBLE
    )
    nothing = ops.broadcast_to(nothing, ops.shape(ids))
    flat = ops.reshape(logits, (-1, num_classes))
    ids = ops.reshape(ids, (-1, 1))
    rows = ops.repeat(ops.arange(ops.shape(flat)[0], dtype="int32"), count)
    flat = ops.scatter_update(
        flat,
        ops.concatenate([rows[:, None], ops.cast(ids, "int32")], axis=1),
        ops.reshape(nothing, (-1,)),
    )
    others = ops.logsumexp(flat, axis=-1)
    return ops.reshape(others, (*ops.shape(logits)[:-1], 1))
