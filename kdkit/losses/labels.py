"""The label loss with label smoothing."""

import keras
from keras import ops

from kdkit.errors import UsageError


@keras.saving.register_keras_serializable(package="kdkit")
class SmoothedCrossEntropy(keras.losses.Loss):
    r"""Cross-entropy with label smoothing, for integer labels.

    $$\mathcal{L} = -(1 - \varepsilon) \log p_y
        - \frac{\varepsilon}{C} \sum_c \log p_c, \qquad
        p = \mathrm{softmax}(z)$$

    The target distribution gives the label the probability
    $1 - \varepsilon$ and shares $\varepsilon$ equally among all $C$ classes.
    Labels stay integers: no one-hot tensor is created. With
    $\varepsilon = 0$ the loss equals
    `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.

    Args:
        label_smoothing: float, at least 0 and below 1. The probability
            $\varepsilon$ that is shared equally among all classes.
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
                "`label_smoothing` must be at least 0 and below 1, received "
                f"{label_smoothing}."
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        label_loss = keras.losses.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=True
        )
        if not self.label_smoothing:
            return label_loss
        uniform_loss = ops.logsumexp(y_pred, axis=-1) - ops.mean(
            y_pred, axis=-1
        )
        return label_loss + self.label_smoothing * (uniform_loss - label_loss)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "reduction": self.reduction,
            "name": self.name,
        }
