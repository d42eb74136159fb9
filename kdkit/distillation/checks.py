"""What a distiller refuses after its constructor, before its first update."""

import functools
import inspect
import warnings

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.distillation.binding import check_labels
from kdkit.distillation.binding import single
from kdkit.errors import UsageError
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.models import num_positions
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.taps import describe
from kdkit.taps import ending
from kdkit.taps import select_inputs


class Checks:
    """The checks of a `Distiller` in `compile` and on its first batch."""

    _has_warned = False

    def compile(self, optimizer="rmsprop", loss=None, *args, **kwargs):
        """Configures training, as `keras.Model.compile` does.

        Args:
            optimizer, *args, **kwargs: as in `keras.Model.compile`.
            loss: the loss between labels and the student's logits, such as
                `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`,
                which counts `hard_label_weight` times. Defaults to `None`.

        Raises:
            UsageError: (a `ValueError`) if the loss takes probabilities, or is
                a softmax over a single logit.
        """
        if self.hard_label_weight:
            check_label_loss(loss, describe(self.student).num_classes)
        elif loss is not None and not self._has_warned:
            self._has_warned = True
            warn_of_unused_loss()
        super().compile(optimizer, loss, *args, **kwargs)

    def compile_from_config(self, config):
        # Keras does not compile a loaded model whose class has a `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def check_batch(self, data) -> None:
        """Refuses labels and outputs that would be misread.

        The first step of `fit` and `train_on_batch` calls it before any weight
        changes. Models whose graph does not show whether their output is
        logits, such as subclassed ones, are run once on the batch. Batches of a
        `tf.distribute` strategy with several replicas are not checked.

        Args:
            data: a batch, as in `keras.Model.train_step`.

        Raises:
            UsageError: (a `ValueError`) if labels are no classes of the student
                or outputs are probabilities: at least two rows without negative
                values, each of which sums to 1.
        """
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if self.hard_label_weight:
            check_labels(self.hard_label_weight, self.loss, y)
            check_label_values(
                single(self.loss),
                single(y),
                describe(self.student).num_classes,
            )
        losses = [
            objective.loss
            for objective in self.objectives
            if objective.tap == "logits"
        ]
        # Logits in chunks are of known models.
        if self.chunk_size is None and (losses or self.hard_label_weight):
            teachers = []
            if losses and self.teacher is not None:
                teachers = keras.tree.flatten(self.teacher)
            check_outputs(teachers, self.student, losses, x)


_OF_CLASSES = ("SparseCategoricalCrossentropy", "SmoothedCrossEntropy")
_OF_SHARES = (
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
)
# How far sums of probabilities are from 1, in single and in half precision.
_TOLERANCES = {"float16": 0.01, "bfloat16": 0.02}
_TOLERANCE = 0.001
_POSITIONS = (
    keras_hub.layers.PositionEmbedding,
    keras_hub.layers.TokenAndPositionEmbedding,
)
_FEW = 32  # numbers that may all be in [0, 1] by chance


def longest_input(model) -> int | None:
    """Returns the longest example that a model reads, `None` for any length.

    Args:
        model: `keras.Model`. A model of a known family, or one with keras-hub's
            position embeddings in it.
    """
    of_family = num_positions(model)
    if of_family is not None:
        return of_family
    found = [
        layer.sequence_length
        for layer in _layers(model)
        if isinstance(layer, _POSITIONS)
    ]
    return min(found, default=None)


def check_positions(model, positions: int, role: str, x) -> None:
    """Refuses examples that are longer than a model's positions.

    Args:
        model: `keras.Model`.
        positions: int, as `longest_input` returns it.
        role: string. `"teacher"` or `"student"`.
        x: the inputs, tensors or arrays. Unknown lengths pass.

    Raises:
        UsageError: if there are any.
    """
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
            f"Examples are longer than the {role} reads. Expected at most its "
            f"{positions} positions. Received: {longest} tokens. Cut the "
            "examples, such as with the preprocessor's "
            f"sequence_length={positions}, or build a {role} with "
            f"max_sequence_length={longest}."
        )


def check_label_values(loss, y, num_classes: int | None) -> None:
    """Refuses labels that the compiled loss cannot take.

    Args:
        loss: the compiled loss.
        y: array of labels.
        num_classes: int. Width of the logits.

    Raises:
        UsageError: if there are any.
    """
    name = class_name(loss)
    labels = ops.convert_to_numpy(y)
    if name in _OF_CLASSES:
        ignored = ignored_class(loss)
        if ignored is not None:
            labels = labels[labels != ignored]
        wrong = labels[(labels < 0) | (labels >= num_classes)]
        expected = f"classes from 0 to {num_classes - 1}"
    elif name in _OF_SHARES:
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


def check_outputs(teachers, student, losses, x) -> None:
    """Refuses models whose outputs on a batch are probabilities.

    Only models whose graph does not show what ends them are run, and cached
    outputs are read.

    Args:
        teachers: list of `keras.Model`, whose logits count.
        student: `keras.Model`.
        losses: list of `kdkit.losses.DistillationLoss` that compare logits.
        x: the inputs of the models, with values.

    Raises:
        UsageError: if no value of at least two rows is negative, and each row
            sums to 1.
    """
    is_binary = any(isinstance(loss, SoftBinaryCrossEntropy) for loss in losses)
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                _check_logits("teacher", "", outputs["logits"], is_binary)
        teachers = []
    for role, model in (
        *(("teacher", one) for one in teachers),
        ("student", student),
    ):
        if ending(model).function is None:
            outputs = model(select_inputs(model, x), training=False)
            (logits,) = keras.tree.flatten(outputs)
            _check_logits(role, f" {model.name!r}", logits, is_binary)


def _check_logits(role, name, logits, is_binary):
    """Refuses logits that are probabilities; warns where a sigmoid is likely.

    It is if all of many different values are from 0 to 1, for a loss that takes
    each logit independently.
    """
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
            "softmax. Received as first row: "
            f"{np.array2string(rows[0][:5], precision=4)}. Build the {role} "
            "without softmax at its end, and compile losses with "
            "from_logits=True."
        )
    if is_binary and rows.size >= _FEW and rows.min() < rows.max():
        warnings.warn(
            f"The outputs of {role}{name} may be probabilities, not logits: "
            f"all {rows.size} values of the first batch are from 0 to 1. If "
            "they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )


def _layers(model):
    """The layers of a model, and those of models in it."""
    for layer in getattr(model, "layers", ()):
        yield layer
        yield from _layers(layer)


def _rank(tensor):
    return len(tensor.shape)


# Losses between distributions over at least two classes.
_OF_DISTRIBUTIONS = (
    "SparseCategoricalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "SmoothedCrossEntropy",
)
# Losses on probabilities that have no `from_logits`, and what to use instead.
_WITHOUT_LOGITS = {
    "KLDivergence": "CategoricalCrossentropy",
    "CategoricalGeneralizedCrossEntropy": "SparseCategoricalCrossentropy",
    "Dice": "CategoricalCrossentropy",
    "Tversky": "CategoricalFocalCrossentropy",
}
# The classes of Keras' functions.
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
    "tversky": "Tversky",
}
_KNOWN = (*_CLASSES.values(), *_OF_DISTRIBUTIONS)


def check_label_loss(loss, num_classes: int | None) -> None:
    """Refuses a compiled loss that would misread the student's logits.

    Args:
        loss: what `compile` takes: string, `keras.losses.Loss`, function, or a
            structure of these.
        num_classes: int or `None`. Width of the student's logits.

    Raises:
        UsageError: if it takes probabilities, or is a softmax over one logit.
    """
    for given in keras.tree.flatten(loss):
        resolved = _resolved(given)
        instead = _on_logits(resolved)
        if instead is not None:
            raise UsageError(
                "The compiled loss takes probabilities, and the student's "
                "output is logits. Expected a loss with from_logits=True. "
                f"Received: loss={_shown(given)}. Pass loss={instead}, and "
                "build the student without softmax or sigmoid at its end."
            )
        if num_classes == 1 and class_name(resolved) in _OF_DISTRIBUTIONS:
            raise UsageError(
                "The compiled loss applies a softmax, which is always 1 over a "
                "single logit, so that nothing would be learned. Expected at "
                "least 2 logits. Received: 1 logit, loss="
                f"{_shown(given)}. Pass loss=keras.losses.BinaryCrossentropy("
                "from_logits=True) for yes or no, or "
                "loss=keras.losses.MeanSquaredError() for scores."
            )


def warn_of_unused_loss() -> None:
    """Warns that a compiled loss has no weight."""
    warnings.warn(
        "The compiled loss is not used, because hard_label_weight is 0. Pass "
        "hard_label_weight=... to Distiller to train on the labels too, or "
        "compile without a loss.",
        stacklevel=3,
    )


def class_name(loss) -> str | None:
    """Returns the name of a loss' class, also of its function's.

    Args:
        loss: string, `keras.losses.Loss` or function.

    >>> class_name("sparse_categorical_crossentropy")
    'SparseCategoricalCrossentropy'
    """
    loss = _function(_resolved(loss))
    if isinstance(loss, keras.losses.Loss):
        return next(
            (
                cls.__name__
                for cls in type(loss).__mro__
                if cls.__name__ in _KNOWN
            ),
            type(loss).__name__,
        )
    name = getattr(loss, "__name__", None)
    return _CLASSES.get(name, name)


def ignored_class(loss) -> int | None:
    """Returns the label that a loss leaves out, `None` if it has none.

    Args:
        loss: string, `keras.losses.Loss` or function.
    """
    if isinstance(loss, keras.losses.Loss):
        return _config(loss).get("ignore_class")
    return getattr(loss, "keywords", {}).get("ignore_class")


def _resolved(loss):
    """The loss object or function of a name."""
    if not isinstance(loss, str):
        return loss
    try:
        return keras.losses.get(loss)
    except ValueError:  # Keras names the loss when the step is made
        return loss


def _on_logits(loss):
    """What to write for a loss on probabilities, `None` for other losses."""
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
    if name in _KNOWN:
        return f"keras.losses.{name}(from_logits=True)"
    if isinstance(loss, keras.losses.Loss):
        return f"{name}(from_logits=True)"
    return f"functools.partial({name}, from_logits=True)"


def _has_no_logits(function):
    """Whether a function has an argument `from_logits` that is false."""
    try:
        found = inspect.signature(function).parameters.get("from_logits")
    except (TypeError, ValueError):
        return False
    return (
        found is not None
        and found.default is not inspect.Parameter.empty
        and not found.default
    )


def _function(loss):
    """The function that arguments were bound to, or the loss as it is."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss


def _config(loss):
    """A loss' settings, none where a class of others returns none."""
    try:
        return loss.get_config() or {}
    except NotImplementedError:
        return {}


def _shown(loss):
    """A loss as a person would write it."""
    if isinstance(loss, keras.losses.Loss):
        return f"{type(loss).__name__}()"
    name = getattr(_function(loss), "__name__", None)
    return name if name and not isinstance(loss, str) else repr(loss)
