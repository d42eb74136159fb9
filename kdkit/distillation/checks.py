"""The errors that a distiller raises between its creation and first update."""

import inspect
import warnings

import keras
import numpy as np
from keras import ops

from kdkit.distillation.binding import require_labels, single
from kdkit.errors import UsageError
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.losses.foreign import class_name, resolved
from kdkit.taps import TEACHER_OUTPUTS, ending, select_inputs


class Checks:
    """The checks of a `Distiller` in `compile` and on its first batch."""

    _has_warned = False

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        **kwargs,
    ):
        """Configures training, as `keras.Model.compile` does.

        Args:
            optimizer, loss_weights, **kwargs: as in `keras.Model.compile`.
            loss: the loss between labels and the student's logits, such as
                `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`.
                Its weight is `hard_label_weight`. Defaults to `None`.
            metrics, weighted_metrics: metrics of labels and the student's
                logits, such as `keras.metrics.AUC(from_logits=True)`.

        Raises:
            UsageError: (a `ValueError`) if the loss or a metric expects
                probabilities, or if the loss applies a softmax to a single
                logit.
        """
        if self.num_classes is not None:
            validate_metrics((metrics, weighted_metrics), self.num_classes)
        if self.hard_label_weight:
            validate_label_loss(loss, self.num_classes)
        elif loss is not None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "The compiled loss is not used, because hard_label_weight is "
                "0.",
                stacklevel=2,
            )
        super().compile(
            optimizer, loss, loss_weights, metrics, weighted_metrics, **kwargs
        )

    def compile_from_config(self, config):
        # Keras does not compile a loaded model whose class has a `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def validate_batch(self, data) -> None:
        """Raises an error for labels or outputs that would be misinterpreted.

        The first step of `fit` and `train_on_batch` calls it before any weight
        changes. If a model's graph does not show whether its output is logits,
        as for subclassed models, the model runs once on the batch. With a
        `tf.distribute` strategy of several replicas batches are not checked.

        Args:
            data: a batch, as in `keras.Model.train_step`.

        Raises:
            UsageError: (a `ValueError`) if a label is not a class of the
                student, or if the outputs are probabilities: at least two rows,
                no negative value, and each row sums to 1.
        """
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if self.hard_label_weight:
            require_labels(self.hard_label_weight, self.loss, y)
            validate_label_values(
                single(self.loss),
                single(y),
                self.num_classes,
            )
        losses = [
            objective.loss
            for objective in self.objectives
            if objective.tap == "logits"
        ]
        # Models with chunked logits are of known families.
        if self.chunk_size is None and (losses or self.hard_label_weight):
            teachers = []
            if losses and self.teacher is not None:
                teachers = keras.tree.flatten(self.teacher)
            validate_outputs(teachers, self.student, losses, x)


_CLASS_LABEL_LOSSES = ("SparseCategoricalCrossentropy", "SmoothedCrossEntropy")
_SHARE_LABEL_LOSSES = (
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
)
# How far sums of probabilities may be from 1, by precision.
_TOLERANCES = {"float16": 0.01, "bfloat16": 0.02}
_TOLERANCE = 0.001
_MIN_VALUES = 32  # fewer values may all be in [0, 1] by chance


def validate_label_values(loss, y, num_classes: int | None) -> None:
    """Raises an error for labels that the compiled loss does not accept."""
    name = class_name(loss)
    labels = ops.convert_to_numpy(y)
    if name in _CLASS_LABEL_LOSSES:
        ignored = ignored_class(loss)
        if ignored is not None:
            labels = labels[labels != ignored]
        wrong = labels[(labels < 0) | (labels >= num_classes)]
        expected = f"classes from 0 to {num_classes - 1}"
    elif name in _SHARE_LABEL_LOSSES:
        wrong = labels[(labels < 0) | (labels > 1)]
        expected = "numbers from 0 to 1"
    else:
        return
    if not wrong.size:
        return
    values = ", ".join(f"{value:g}" for value in np.unique(wrong)[:5])
    raise UsageError(
        f"The first batch has labels that {name} does not take. Expected "
        f"{expected}, received {values}."
    )


def validate_outputs(teachers, student, losses, x) -> None:
    """Raises an error if a model's outputs on a batch are probabilities."""
    is_binary = any(isinstance(loss, SoftBinaryCrossEntropy) for loss in losses)
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                _require_logits("teacher", outputs["logits"], is_binary)
        teachers = []
    for role, model in (
        *(("teacher", one) for one in teachers),
        ("student", student),
    ):
        if ending(model).function is None:
            outputs = model(select_inputs(model, x), training=False)
            (logits,) = keras.tree.flatten(outputs)
            _require_logits(role, logits, is_binary)


def _require_logits(role, logits, is_binary):
    """Raises an error for probabilities; warns if a sigmoid is likely."""
    dtype = keras.backend.standardize_dtype(logits.dtype)
    rows = ops.convert_to_numpy(ops.cast(logits, "float32"))
    rows = rows.reshape(-1, rows.shape[-1])
    if not rows.size or not (rows >= 0).all() or not (rows <= 1).all():
        return
    tolerance = _TOLERANCES.get(dtype, _TOLERANCE)
    sums_to_1 = (np.abs(rows.sum(axis=-1) - 1) <= tolerance).all()
    if len(rows) > 1 and rows.shape[1] > 1 and sums_to_1:
        raise UsageError(
            f"The outputs of the {role} are probabilities, not logits: each "
            "row of the first batch sums to 1."
        )
    if is_binary and rows.size >= _MIN_VALUES and rows.min() < rows.max():
        warnings.warn(
            f"The outputs of the {role} may be probabilities, not logits: "
            f"all {rows.size} values in the first batch are between 0 and 1. "
            "If they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )


# Losses between distributions over at least two classes.
_SOFTMAX_LOSSES = (
    "SparseCategoricalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "SmoothedCrossEntropy",
)
# Losses on probabilities, which have no `from_logits`.
_WITHOUT_LOGITS = (
    "KLDivergence",
    "CategoricalGeneralizedCrossEntropy",
    "Dice",
    "Tversky",
)


def validate_label_loss(loss, num_classes: int | None) -> None:
    """Raises an error if a compiled loss does not take the student's logits."""
    for one in map(resolved, keras.tree.flatten(loss)):
        name = class_name(one)
        if name in _WITHOUT_LOGITS or _takes_probabilities(one):
            raise UsageError(
                f"The compiled loss {name} expects probabilities, but the "
                "student's output is logits. Pass a loss with from_logits=True."
            )
        if num_classes == 1 and name in _SOFTMAX_LOSSES:
            raise UsageError(
                f"The compiled loss {name} applies a softmax, which is always "
                "1 for the student's single logit."
            )


LEAST_THRESHOLD = 1e-7  # F1Score accepts thresholds above 0 only


def validate_metrics(metrics, num_classes: int) -> None:
    """Raises an error for compiled metrics that expect probabilities."""
    for given in keras.tree.flatten(metrics):
        metric, argument = _metric_on_logits(given, num_classes)
        if argument is not None:
            raise UsageError(
                f"The compiled metric {type(metric).__name__} expects "
                "probabilities, but the student's output is logits. Pass it "
                f"with {argument}."
            )


def _metric_on_logits(given, num_classes):
    """Returns a metric and its missing argument, `None` if there is none."""
    if given in ("accuracy", "acc") and num_classes == 1:
        given = "binary_accuracy"
    elif given is None or given in ("accuracy", "acc"):
        return given, None
    metric = keras.metrics.get(given)
    is_metric = isinstance(metric, keras.metrics.Metric)
    config = metric.get_config() if is_metric else {}
    argument = None
    if config.get("from_logits") is False:
        argument = "from_logits=True"
    elif isinstance(metric, keras.metrics.FBetaScore):
        fits = (LEAST_THRESHOLD, None if num_classes > 1 else LEAST_THRESHOLD)
        if config["threshold"] not in fits:
            argument = f"threshold={LEAST_THRESHOLD}"
    elif config.get("threshold") == 0.5:
        argument = "threshold=0.0"
    elif "thresholds" in config and (
        config["thresholds"] is config.get("top_k") is None
    ):
        argument = "thresholds=0.0"
    return metric, argument


def require_own_weights(teacher, student) -> None:
    """Raises an error if the student trains weights of a teacher."""
    trained = {id(one): one.path for one in student.trainable_variables}
    for model in keras.tree.flatten(teacher):
        paths = [
            trained[id(one)] for one in model.variables if id(one) in trained
        ]
        if paths:
            layers = sorted({path.rpartition("/")[0] for path in paths})
            raise UsageError(
                f"The student trains layers of its teacher: {layers}. Build it "
                "on a copy, or freeze them."
            )


def ignored_class(loss) -> int | None:
    """Returns the label that a loss ignores, or `None`."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("ignore_class")
    return getattr(loss, "keywords", {}).get("ignore_class")


def _takes_probabilities(loss):
    """Whether a loss has a `from_logits`, and it is false."""
    if isinstance(loss, keras.losses.Loss):
        default = loss.get_config().get("from_logits")
        flag = getattr(loss, "from_logits", default)
    else:
        flag = _default_of_from_logits(loss)
    return flag is not None and not flag


def _default_of_from_logits(function):
    """A function's default for `from_logits`, `None` if it has none."""
    try:
        found = inspect.signature(function).parameters.get("from_logits")
    except (TypeError, ValueError):  # no function, or one in C
        return None
    return found and found.default
