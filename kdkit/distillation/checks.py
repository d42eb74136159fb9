"""The errors that a distiller raises between its creation and first update."""

import inspect
import warnings

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.distillation.binding import require_labels, single
from kdkit.errors import UsageError, shortened
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.losses.foreign import (
    KNOWN_CLASSES,
    bare_function,
    class_name,
    resolved,
)
from kdkit.models import num_positions
from kdkit.taps import TEACHER_OUTPUTS, ending, output_structure, select_inputs


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
                probabilities, if the loss applies a softmax to a single logit,
                or if an objective's loss is registered with Keras, but not with
                `kdkit.losses.register_loss`, and so cannot be saved.
        """
        for objective in self.objectives:
            registered = keras.saving.get_registered_name(type(objective.loss))
            if registered != type(objective.loss).__name__:
                objective.loss.to_setting()
        if self.num_classes is not None:
            validate_metrics((metrics, weighted_metrics), self.num_classes)
        if self.hard_label_weight:
            validate_label_loss(loss, self.student, self.num_classes)
        elif loss is not None and not self._has_warned:
            self._has_warned = True
            warn_unused_loss()
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
_POSITIONS = (
    keras_hub.layers.PositionEmbedding,
    keras_hub.layers.TokenAndPositionEmbedding,
)
_MIN_VALUES = 32  # fewer values may all be in [0, 1] by chance


def longest_input(model) -> int | None:
    """Returns a model's maximum sequence length, `None` if there is none."""
    family_length = num_positions(model)
    if family_length is not None:
        return family_length
    found = [
        layer.sequence_length
        for layer in _layers(model)
        if isinstance(layer, _POSITIONS)
    ]
    return min(found, default=None)


def require_positions(model, positions: int, role: str, x) -> None:
    """Raises an error if examples are longer than the model can read."""
    inputs = select_inputs(model, x)
    if isinstance(inputs, dict):
        tokens = [
            value
            for name, value in inputs.items()
            if name.endswith("token_ids") and _rank(value) > 1
        ]
    else:
        tokens = [one for one in keras.tree.flatten(inputs) if _rank(one) == 2]
    lengths = [one.shape[1] for one in tokens if one.shape[1] is not None]
    longest = max(lengths, default=0)
    if longest > positions:
        raise UsageError(
            f"Examples are too long for the {role}. Expected at most its "
            f"{positions} positions. Received: {longest} tokens. Truncate the "
            "examples, for example with the preprocessor's "
            f"sequence_length={positions}, or build a {role} with "
            f"max_sequence_length={longest}."
        )


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
    if name == "SparseCategoricalCrossentropy" and (wrong < 0).all():
        fix = (
            "To ignore them, pass loss=keras.losses."
            "SparseCategoricalCrossentropy(from_logits=True, "
            f"ignore_class={np.unique(wrong)[0]:g}), or give them label 0 and "
            "sample weight 0."
        )
    elif (wrong < 0).all():
        fix = "To ignore them, give them label 0 and sample weight 0."
    else:
        fix = (
            "Correct the labels, or build teacher and student with as many "
            "classes as the labels have."
        )
    raise UsageError(
        f"Labels do not fit the compiled loss {name}. Expected {expected}. "
        f"Received: {values}, in {wrong.size} of {labels.size} labels of the "
        f"first batch. {fix}"
    )


def validate_outputs(teachers, student, losses, x) -> None:
    """Raises an error if a model's outputs on a batch are probabilities."""
    is_binary = any(isinstance(loss, SoftBinaryCrossEntropy) for loss in losses)
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                _require_logits("teacher", "", outputs["logits"], is_binary)
        teachers = []
    for role, model in (
        *(("teacher", one) for one in teachers),
        ("student", student),
    ):
        if ending(model).function is None:
            outputs = model(select_inputs(model, x), training=False)
            (logits,) = keras.tree.flatten(outputs)
            _require_logits(role, f" {model.name!r}", logits, is_binary)


def _require_logits(role, name, logits, is_binary):
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
            f"The outputs of {role}{name} are probabilities, not logits: each "
            "row of the first batch sums to 1. Expected the values before the "
            "softmax. Received in the first row: "
            f"{np.array2string(rows[0][:5], precision=4)}. Build the {role} "
            "without a final softmax, and compile losses with "
            "from_logits=True."
        )
    if is_binary and rows.size >= _MIN_VALUES and rows.min() < rows.max():
        warnings.warn(
            f"The outputs of {role}{name} may be probabilities, not logits: "
            f"all {rows.size} values in the first batch are between 0 and 1. "
            "If they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )


def _layers(model):
    """Yields the layers of a model and of the models in it."""
    for layer in getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)


def _rank(tensor):
    return len(tensor.shape)


# Losses between distributions over at least two classes.
_SOFTMAX_LOSSES = (
    "SparseCategoricalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "SmoothedCrossEntropy",
)
# Losses on probabilities without `from_logits`, and their replacements.
_WITHOUT_LOGITS = {
    "KLDivergence": "CategoricalCrossentropy",
    "CategoricalGeneralizedCrossEntropy": "SparseCategoricalCrossentropy",
    "Dice": "CategoricalCrossentropy",
    "Tversky": "CategoricalFocalCrossentropy",
}


def validate_label_loss(loss, student, num_classes: int | None) -> None:
    """Raises an error if a compiled loss does not take the student's logits."""
    for given in keras.tree.flatten(loss):
        loss_object = resolved(given)
        instead = _on_logits(loss_object)
        if instead is not None:
            raise UsageError(
                "The compiled loss expects probabilities, but the student's "
                "output is logits. Expected a loss with from_logits=True. "
                f"Received: loss={_shown(given)}. Pass loss={instead}, and "
                "build the student without a final softmax or sigmoid."
            )
        if num_classes == 1 and class_name(loss_object) in _SOFTMAX_LOSSES:
            raise UsageError(
                "The compiled loss applies a softmax, which is always 1 for a "
                "single logit, so nothing would be learned. Expected at "
                "least 2 logits. Received: 1 logit, loss="
                f"{_shown(given)}. Pass loss=keras.losses.BinaryCrossentropy("
                "from_logits=True) for yes or no, or "
                "loss=keras.losses.MeanSquaredError() for scores."
            )
    if isinstance(loss, dict) and not isinstance(
        output_structure(student), dict
    ):
        raise UsageError(
            "The student has one output without a name. Expected one loss. "
            f"Received: a dict of losses for {sorted(loss)}. Pass the loss "
            "without the dict."
        )


LEAST_THRESHOLD = 1e-7  # F1Score accepts thresholds above 0 only


def validate_metrics(metrics, num_classes: int) -> None:
    """Raises an error for compiled metrics that expect probabilities."""
    wrong, right = [], []
    for given in keras.tree.flatten(metrics):
        metric, argument = _metric_on_logits(given, num_classes)
        if argument is not None:
            wrong.append(given if isinstance(given, str) else metric.name)
            right.append(
                f"keras.metrics.{type(metric).__name__}({argument}, "
                f"name={wrong[-1]!r})"
            )
    if wrong:
        ranked = " For one class per example, top_k=1 replaces thresholds."
        raise UsageError(
            "Compiled metrics expect probabilities, but the student's output "
            f"is logits. Received: {', '.join(wrong)}. Pass metrics=["
            f"{', '.join(right)}].{ranked if num_classes > 1 else ''}"
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
                f"The student {student.name!r} trains layers of its teacher "
                f"{model.name!r}. Expected weights of its own. Received the "
                f"shared layers {shortened(layers)}. Build the student on a "
                "copy of the teacher, keras.models.clone_model(teacher), with "
                "copy.set_weights(teacher.get_weights()), or freeze the shared "
                "layers by layer.trainable = False."
            )


def warn_unused_loss() -> None:
    """Warns that the weight of the compiled loss is 0."""
    warnings.warn(
        "The compiled loss is not used, because hard_label_weight is 0. Pass "
        "hard_label_weight=... to Distiller to train on the labels too, or "
        "compile without a loss.",
        stacklevel=3,
    )


def ignored_class(loss) -> int | None:
    """Returns the label that a loss ignores, or `None`."""
    if isinstance(loss, keras.losses.Loss):
        return _config(loss).get("ignore_class")
    return getattr(loss, "keywords", {}).get("ignore_class")


def _on_logits(loss):
    """Returns the fix for a loss on probabilities, `None` for other losses."""
    name = class_name(loss)
    if name in _WITHOUT_LOGITS:
        return f"keras.losses.{_WITHOUT_LOGITS[name]}(from_logits=True)"
    if isinstance(loss, keras.losses.Loss):
        flag = getattr(loss, "from_logits", _config(loss).get("from_logits"))
        takes_probabilities = flag is not None and not flag
    else:
        takes_probabilities = _has_no_logits(loss)
    if not takes_probabilities:
        return None
    if name in KNOWN_CLASSES:
        return f"keras.losses.{name}(from_logits=True)"
    if isinstance(loss, keras.losses.Loss):
        return f"{name}(from_logits=True)"
    return f"functools.partial({name}, from_logits=True)"


def _has_no_logits(function):
    """Whether a function's argument `from_logits` defaults to false."""
    try:
        found = inspect.signature(function).parameters.get("from_logits")
    except (TypeError, ValueError):
        return False
    return (
        found is not None
        and found.default is not inspect.Parameter.empty
        and not found.default
    )


def _config(loss):
    """Returns a loss's config, or an empty dict if its class has none."""
    try:
        return loss.get_config() or {}
    except NotImplementedError:
        return {}


def _shown(loss):
    """Returns a loss as a user would write it."""
    if isinstance(loss, keras.losses.Loss):
        return f"{type(loss).__name__}()"
    name = getattr(bare_function(loss), "__name__", None)
    return name if name and not isinstance(loss, str) else repr(loss)
