"""Losses that kdkit does not define: of Keras, or a user's functions.

`adapted` is the one place that turns them into a `DistillationLoss`.
"""

import functools

from kdkit.errors import UsageError
from kdkit.late import keras, ops
from kdkit.losses.base import DistillationLoss
from kdkit.losses.logits import validate_temperature

# Losses between distributions, and the operation that turns logits into one.
_TO_PROBABILITIES = {
    "KLDivergence": "softmax",
    "CategoricalCrossentropy": "softmax",
    "BinaryCrossentropy": "sigmoid",
}
# Losses that would compute with logits as if they were labels.
_NOT_ON_LOGITS = (
    "CategoricalFocalCrossentropy",
    "CategoricalGeneralizedCrossEntropy",
    "Dice",
    "Tversky",
    "BinaryFocalCrossentropy",
    "Poisson",
    "SparseCategoricalCrossentropy",
    "SmoothedCrossEntropy",
)
# The class for each of Keras' loss functions.
_CLASSES = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "categorical_focal_crossentropy": "CategoricalFocalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
    "binary_focal_crossentropy": "BinaryFocalCrossentropy",
    "kl_divergence": "KLDivergence",
    "categorical_generalized_cross_entropy": (
        "CategoricalGeneralizedCrossEntropy"
    ),
    "dice": "Dice",
    "poisson": "Poisson",
    "tversky": "Tversky",
}
KNOWN_CLASSES = (*_CLASSES.values(), "SmoothedCrossEntropy")
# Reductions.
_PER_EXAMPLE = (None, "none")
_MEANS = ("mean", "sum_over_batch_size", "mean_with_sample_weight")


class KerasLoss(DistillationLoss):
    r"""A Keras loss, or a function, as a loss between teacher and student.

    `kdkit.Objective` makes it from a `keras.losses.Loss`, from a loss of
    `keras.distillation` and from a function `f(teacher, student)`. The teacher
    is `y_true`, the student `y_pred`. The values of all examples and positions
    are reduced as those of every `DistillationLoss`, so that padding and sample
    weights count; so pass a loss of Keras with `reduction=None`.

    Losses between distributions (`KLDivergence`, `CategoricalCrossentropy`,
    `BinaryCrossentropy`) get the softmax, or the sigmoid, of logits.

    Args:
        loss: `keras.losses.Loss`, whose values are taken before its reduction;
            or a function that returns values of shape `(batch_size, ...)`.
        on_logits: bool. Whether the tensors are logits. Defaults to `False`.
        temperature: float. Divides both tensors. Defaults to `1.0`.
        scale_by_temperature_squared: bool. Whether to multiply the values by
            the squared temperature. Defaults to `False`.
        name: string or `None`. Defaults to the name of the loss.

    Call arguments:
        teacher: Tensor.
        student: Tensor of the same shape.
        sample_weight: Tensor of shape `(batch_size,)`, or broadcastable to the
            values. Defaults to 1 everywhere.

    Raises:
        UsageError: if the loss does not compare logits, or returns fewer
            values than one per example.

    Example:

    >>> loss = kdkit.losses.KerasLoss(keras.losses.MeanAbsoluteError(None))
    >>> float(loss([[1.0, 2.0]], [[1.0, 4.0]]))
    1.0
    """

    def __init__(
        self,
        loss,
        on_logits=False,
        temperature=1.0,
        scale_by_temperature_squared=False,
        name=None,
    ):
        super().__init__(name=name or _name(loss))
        validate_temperature(temperature)
        self.loss = loss
        self.on_logits = on_logits
        self.temperature = temperature
        self.scale_by_temperature_squared = scale_by_temperature_squared
        kind = class_name(loss)
        if on_logits and kind in _NOT_ON_LOGITS:
            raise UsageError(f"The loss {kind} does not compare logits.")
        self._to_probabilities = on_logits and _TO_PROBABILITIES.get(kind)
        if self._to_probabilities == "softmax":
            self.min_classes = 2
        self.has_entropy = (
            bool(self._to_probabilities) and kind != "KLDivergence"
        )

    def call(self, teacher, student):
        teacher, student = (
            tensor / self.temperature for tensor in (teacher, student)
        )
        if self._to_probabilities:
            to_probabilities = getattr(ops, self._to_probabilities)
            teacher = to_probabilities(teacher)
            if not _from_logits(self.loss):
                student = to_probabilities(student)
        is_loss = isinstance(self.loss, keras.losses.Loss)
        function = self.loss.call if is_loss else self.loss
        values = ops.convert_to_tensor(function(teacher, student))
        if self.scale_by_temperature_squared:
            values *= self.temperature**2
        return ops.cast(values, self.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "loss": self.loss,
            "on_logits": self.on_logits,
            "temperature": self.temperature,
            "scale_by_temperature_squared": self.scale_by_temperature_squared,
        }

    def to_setting(self):
        """Returns the loss as a dict that `from_setting` reads."""
        config = self.get_config()
        return {"keras_loss": function_config(config.pop("loss"), "loss")} | (
            config
        )

    @classmethod
    def from_setting(cls, value):
        """Returns the loss for a result of `to_setting`."""
        arguments = dict(value)
        loss = keras.losses.deserialize(arguments.pop("keras_loss"))
        return cls(loss, **arguments)

    @staticmethod
    def describes(value) -> bool:
        """Whether a value is a result of `to_setting`."""
        return isinstance(value, dict) and "keras_loss" in value


def adapted(loss, on_logits: bool) -> DistillationLoss:
    """Returns a loss that is not kdkit's as a `DistillationLoss`."""
    if isinstance(loss, keras.distillation.LogitsDistillation):
        # Its loss, and that of `FeatureDistillation`, is always averaged.
        inner = _only_loss(loss)
        return KerasLoss(
            inner,
            on_logits=True,
            temperature=loss.temperature,
            scale_by_temperature_squared=class_name(inner) == "KLDivergence",
            name="logits_distillation",
        )
    if isinstance(loss, keras.distillation.FeatureDistillation):
        return KerasLoss(_only_loss(loss), name="feature_distillation")
    _require_reduction(loss, _PER_EXAMPLE)
    return KerasLoss(loss, on_logits)


def layer_names(loss, tap):
    """Returns the tap for a loss: the layers that the loss names, if any."""
    named = [
        getattr(loss, f"{role}_layer_name", None)
        for role in ("teacher", "student")
    ]
    is_feature = isinstance(loss, keras.distillation.FeatureDistillation)
    if not is_feature or named == [None, None]:
        return tap
    taps = tuple("logits" if one is None else f"layer:{one}" for one in named)
    if tap not in ("logits", taps):
        raise UsageError(
            f"Both the loss and the objective name layers: {taps} and {tap!r}."
        )
    return taps


def function_config(function, argument: str):
    """Returns a function or a Keras loss in JSON's types."""
    if argument == "loss":
        return keras.losses.serialize(function)
    return keras.saving.serialize_keras_object(function)


def _only_loss(loss):
    """Returns the loss inside a loss of `keras.distillation`."""
    (inner,) = keras.tree.flatten(loss.loss)
    _require_reduction(inner, (*_PER_EXAMPLE, *_MEANS))
    return inner


def _require_reduction(loss, reductions):
    """Requires a reduction: the objective takes means over what counts."""
    reduction = getattr(loss, "reduction", None)
    if reduction not in reductions:
        raise UsageError(
            f"{type(loss).__name__}'s reduction={reduction!r} would not count: "
            "an objective averages. Pass reduction=None."
        )


def class_name(loss) -> str | None:
    """Returns the name of a loss's class, also for a loss function."""
    loss = bare_function(resolved(loss))
    if isinstance(loss, keras.losses.Loss):
        return next(
            (
                cls.__name__
                for cls in type(loss).__mro__
                if cls.__name__ in KNOWN_CLASSES
            ),
            type(loss).__name__,
        )
    name = getattr(loss, "__name__", None)
    return _CLASSES.get(name, name)


def resolved(loss):
    """Returns the loss object or function for a name."""
    if not isinstance(loss, str):
        return loss
    try:
        return keras.losses.get(loss)
    except ValueError:  # Keras raises its own error when the step is built
        return loss


def bare_function(loss):
    """Returns the function inside a `functools.partial`, or the loss itself."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss


def _from_logits(loss):
    """Whether a loss of Keras takes logits as `y_pred`."""
    if isinstance(loss, functools.partial):
        return bool(loss.keywords.get("from_logits"))
    return bool(getattr(loss, "from_logits", False))


def _name(loss):
    name = getattr(loss, "name", None) or getattr(loss, "__name__", "")
    return name if name.isidentifier() else "custom_loss"
