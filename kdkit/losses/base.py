"""What all distillation losses share: weights in, one masked mean out."""

import keras
from keras import ops

from kdkit.errors import UsageError

LARGEST_LOGIT = 1e30  # as good as infinite, and 0 times it is 0


class DistillationLoss(keras.losses.Loss):
    r"""Base class of the losses between a teacher's and a student's tensors.

    A subclass implements `call(teacher, student)`, which returns unreduced
    values. Calling the loss reduces them to

    $$\frac{\sum_i w_i v_i}{\sum_i w_i}$$

    so that what has weight 0 (padding, say) does not count in the denominator
    either. With no weight anywhere the loss is 0, not NaN. All arithmetic is
    in the loss' `dtype`, float32 by default, also when the models compute in
    half precision.

    Args:
        name: string. The name of the loss, and by default of its objective.
        dtype: string or `keras.DTypePolicy`. The dtype of the computation.
            Defaults to `"float32"`.

    Call arguments:
        teacher: Tensor. The teacher's output.
        student: Tensor of the same shape, unless the subclass says otherwise.
        sample_weight: Tensor of shape `(batch_size,)`, of shape
            `(batch_size, sequence_length)` for values with a position axis,
            or broadcastable to the values. Defaults to 1 everywhere.

    Returns:
        A scalar tensor.

    Raises:
        UsageError: (a `ValueError`) if the shapes of teacher and student, or
            of `sample_weight`, do not fit.
    """

    # Of the teacher's classes so many stand for themselves; all if None.
    top_k = None
    # Whether positions of padding count, of which a cache keeps nothing.
    counts_padding = False
    # The least number of classes in the logits that it compares.
    min_classes = 1
    # Whether equal tensors have values above 0, as in cross-entropies.
    has_entropy = False

    def __init__(self, name, dtype="float32"):
        super().__init__(name=name, reduction=None, dtype=dtype)

    def __call__(self, teacher, student, sample_weight=None):
        numerator, denominator = self.sums(teacher, student, sample_weight)
        return safe_divide(numerator, denominator)

    def sums(self, teacher, student, sample_weight=None):
        """Returns $\\sum w v$ and $\\sum w$, which add up over replicas."""
        teacher = ops.convert_to_tensor(teacher, dtype=self.dtype)
        student = ops.convert_to_tensor(student, dtype=self.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(
                sample_weight, dtype=self.dtype
            )
        return self.weighted_sums(teacher, student, sample_weight)

    def excess_sums(self, teacher, student, sample_weight=None):
        """As `sums`, with the teacher's entropy subtracted from the values.

        A student equal to the teacher has 0, and the gradient is the same. Of
        losses without an entropy they are the same sums.
        """
        numerator, denominator = self.sums(teacher, student, sample_weight)
        if not self.has_entropy:
            return numerator, denominator
        # Where a logit is infinite its term is 0, not 0 times infinity.
        teacher = ops.clip(
            ops.convert_to_tensor(teacher, dtype=self.dtype),
            -LARGEST_LOGIT,
            LARGEST_LOGIT,
        )
        entropy, _ = self.sums(teacher, teacher, sample_weight)
        return numerator - ops.stop_gradient(entropy), denominator

    def weighted_sums(self, teacher, student, sample_weight):
        """The two sums, for tensors already in the dtype of the loss."""
        check_same_shape(teacher, student, self.name)
        return self.reduce(self.call(teacher, student), sample_weight)

    def reduce(self, values, sample_weight):
        """Returns the two sums of values.

        Args:
            values: Tensor, as `call` returns it.
            sample_weight: `None` or tensor, as for `sums`.
        """
        if sample_weight is None:
            weights = ops.ones_like(values)
        else:
            weights = self.expand_weights(sample_weight, values)
            weights = ops.broadcast_to(weights, ops.shape(values))
        return ops.sum(values * weights), ops.sum(weights)

    def expand_weights(self, sample_weight, values):
        """Gives the weights the rank of the values, trailing axes of 1.

        Raises:
            UsageError: if the weights have more axes than the values.
        """
        return append_axes(sample_weight, len(values.shape), self.name)

    def get_config(self):
        return {"name": self.name}


def append_axes(sample_weight, rank, loss_name):
    """Gives `sample_weight` a rank by axes of length 1 at its end.

    Appends them where they are missing, and drops them where there are too
    many, as Keras does with weights of shape `(batch_size, 1)`.
    """
    missing = rank - len(sample_weight.shape)
    surplus = sample_weight.shape[rank:]
    if any(size != 1 for size in surplus):
        raise UsageError(
            f"`sample_weight` has more axes than the values of {loss_name!r}. "
            f"Expected at most {rank}. Received: sample_weight of shape "
            f"{tuple(sample_weight.shape)}. For an output without a position "
            "axis pass one weight per example, of shape (batch_size,)."
        )
    shape = ops.shape(sample_weight)[:rank]
    return ops.reshape(sample_weight, (*shape, *([1] * missing)))


def check_same_shape(teacher, student, loss_name):
    """Raises a `UsageError` where broadcasting would hide a mistake."""
    if len(teacher.shape) != len(student.shape) or any(
        teacher_size != student_size
        for teacher_size, student_size in zip(
            teacher.shape, student.shape, strict=True
        )
        if teacher_size is not None and student_size is not None
    ):
        raise UsageError(
            f"{loss_name!r} compares tensors of the same shape. Received: "
            f"teacher of shape {tuple(teacher.shape)}, student of shape "
            f"{tuple(student.shape)}."
        )


def safe_divide(numerator, denominator):
    """Divides, and returns 0 where nothing counts."""
    nothing = ops.equal(denominator, 0)
    return ops.where(
        nothing,
        ops.zeros_like(numerator),
        numerator / ops.where(nothing, ops.ones_like(denominator), denominator),
    )


def reject_parity(parity, known):
    """Raises a `UsageError` unless `parity` is `None` or `known`."""
    if parity not in (None, known):
        raise UsageError(
            "Invalid value for argument `parity`. Expected None (the paper's "
            f"equation) or {known!r} (the authors' code). Received: "
            f"parity={parity!r}."
        )


@keras.saving.register_keras_serializable(package="kdkit")
class SmoothedCrossEntropy(keras.losses.Loss):
    r"""Cross-entropy against labels that leave some room for all classes.

    $$\mathcal{L} = -(1 - \varepsilon) \log p_y
        - \frac{\varepsilon}{C} \sum_c \log p_c, \qquad
        p = \mathrm{softmax}(z)$$

    That is cross-entropy against the label with probability $1 - \varepsilon$
    and any of the $C$ classes otherwise. Labels stay numbers: no tensor of
    one-hot vectors is made. With $\varepsilon = 0$ it is Keras'
    `SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        label_smoothing: float, at least 0 and below 1. The share
            $\varepsilon$ that all classes divide equally.
        reduction: string or `None`. How Keras reduces the values, as in
            `keras.losses.Loss`. Defaults to `"sum_over_batch_size"`.
        name: string. Defaults to `"smoothed_cross_entropy"`.

    Call arguments:
        y_true: int Tensor of shape `(...)`. The labels $y$.
        y_pred: Tensor of shape `(..., num_classes)`. Logits $z$.
        sample_weight: Tensor of shape `(...)`. Defaults to 1 everywhere.

    Raises:
        UsageError: if `label_smoothing` is not in [0, 1).

    Example:

    >>> loss = kdkit.losses.SmoothedCrossEntropy(0.1)
    >>> round(float(loss(np.array([0]), np.array([[2.0, 0.0]]))), 4)
    0.2269

    References:
     - [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 5.4
    """

    def __init__(
        self,
        label_smoothing,
        reduction="sum_over_batch_size",
        name="smoothed_cross_entropy",
    ):
        super().__init__(name=name, reduction=reduction)
        if not 0 <= label_smoothing < 1:
            raise UsageError(
                "Invalid value for argument `label_smoothing`. Expected a "
                "number of at least 0 and below 1. Received: label_smoothing="
                f"{label_smoothing}. Use 0.0 for the plain cross-entropy."
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        of_label = keras.losses.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=True
        )
        if not self.label_smoothing:
            return of_label
        of_any = ops.logsumexp(y_pred, axis=-1) - ops.mean(y_pred, axis=-1)
        return of_label + self.label_smoothing * (of_any - of_label)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "reduction": self.reduction,
            "name": self.name,
        }
