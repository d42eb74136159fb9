"""Losses that kdkit does not define: of Keras, or a user's functions."""

import functools
import inspect

from kdkit.errors import UsageError
from kdkit.late import keras, ops
from kdkit.losses.base import DistillationLoss
from kdkit.losses.logits import validate_temperature

# Losses between distributions, and the operation that turns logits into one.
_TO_PROBABILITIES = {
    "kldivergence": "softmax",
    "categoricalcrossentropy": "softmax",
    "binarycrossentropy": "sigmoid",
}
# Losses on probabilities, which have no `from_logits`.
_ON_PROBABILITIES = {"categoricalgeneralizedcrossentropy", "dice", "tversky"}
WITHOUT_LOGITS = {"kldivergence", *_ON_PROBABILITIES}
# Losses whose labels are numbers of classes.
ON_CLASSES = {"sparsecategoricalcrossentropy", "smoothedcrossentropy"}
FOCAL = {"categoricalfocalcrossentropy", "binaryfocalcrossentropy"}
# Losses that would compute with logits as if they were labels.
_NOT_ON_LOGITS = {"poisson", *_ON_PROBABILITIES, *ON_CLASSES, *FOCAL}
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


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
        loss = keras.losses.get(loss)
        super().__init__(name=name or _name(loss))
        validate_temperature(temperature)
        self.loss = loss
        self.on_logits = on_logits
        self.temperature = temperature
        self.scale_by_temperature_squared = scale_by_temperature_squared
        kinds = loss_kinds(loss) if on_logits else set()
        if kinds & _NOT_ON_LOGITS:
            raise UsageError(f"The loss {self.name} compares no logits.")
        (kind,) = kinds & {*_TO_PROBABILITIES} or {None}
        self._operation = _TO_PROBABILITIES.get(kind)
        self.has_entropy = kind not in (None, "kldivergence")
        self.min_classes = 2 if self._operation == "softmax" else 1

    def call(self, teacher, student):
        teacher = teacher / self.temperature
        student = student / self.temperature
        if self._operation:
            to_probabilities = getattr(ops, self._operation)
            teacher = to_probabilities(teacher)
            if not takes_logits(self.loss):
                student = to_probabilities(student)
        function = getattr(self.loss, "call", self.loss)
        values = ops.convert_to_tensor(function(teacher, student))
        if self.scale_by_temperature_squared:
            values *= self.temperature**2
        return ops.cast(values, self.dtype)

    def get_config(self):
        arguments = inspect.signature(KerasLoss).parameters
        return {argument: getattr(self, argument) for argument in arguments}

    def to_setting(self):
        """Returns the loss as a dict that `from_config` reads."""
        return self.get_config() | {"loss": keras.losses.serialize(self.loss)}


def adapted(loss, tap) -> tuple:
    """Returns a foreign loss as a `DistillationLoss`, and the tap for it."""
    on_layers = isinstance(loss, keras.distillation.FeatureDistillation)
    on_logits = isinstance(loss, keras.distillation.LogitsDistillation)
    inner, reductions = loss, (None, "none")
    if on_layers or on_logits:
        (inner,) = keras.tree.flatten(loss.loss)
        # The loss around it averages, whatever reduction this one has.
        reductions = (None, "none", *MEANS)
    reduction = getattr(inner, "reduction", None)
    if reduction not in reductions:
        raise UsageError(
            f"{type(inner).__name__}'s reduction={reduction!r} would not "
            "count: an objective averages. Pass reduction=None."
        )
    if on_layers:
        made = KerasLoss(inner, name="feature_distillation")
        return made, _layers_of(loss, tap)
    if not on_logits:
        return KerasLoss(inner, on_logits=tap == "logits"), tap
    is_divergence = "kldivergence" in loss_kinds(inner)
    name = "logits_distillation"
    return KerasLoss(inner, True, loss.temperature, is_divergence, name), tap


def _layers_of(loss, tap):
    """Returns the layers that a `FeatureDistillation` names, or the tap."""
    names = loss.teacher_layer_name, loss.student_layer_name
    if names == (None, None):
        return tap
    taps = tuple("logits" if one is None else f"layer:{one}" for one in names)
    if tap not in ("logits", taps):
        raise UsageError(
            f"Both the loss and the objective name layers: {taps} and {tap!r}."
        )
    return taps


def loss_kinds(loss) -> set[str]:
    """Returns the names of a loss's classes: `"kldivergence"` and so on."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    names = [getattr(loss, "__name__", "")]
    if isinstance(loss, keras.losses.Loss):
        names = [cls.__name__ for cls in type(loss).__mro__]
    return {name.replace("_", "").lower() for name in names}


def takes_logits(loss) -> bool | None:
    """Whether a loss has `from_logits=True`, `None` without this argument."""
    if isinstance(loss, keras.losses.Loss):
        default = loss.get_config().get("from_logits")
        return getattr(loss, "from_logits", default)
    found = inspect.signature(loss).parameters.get("from_logits")
    return found and found.default


def _name(loss):
    name = getattr(loss, "name", None) or getattr(loss, "__name__", "")
    return name if name.isidentifier() else "custom_loss"
