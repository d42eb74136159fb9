"""The compiled loss on the labels: its sums, and the errors that it hides."""

import inspect

import keras
import numpy as np
from keras import ops

from kdkit.distillation.chunks import ChunkTerm
from kdkit.distillation.weights import label_weights, position_weights
from kdkit.errors import UsageError
from kdkit.losses.base import append_axes
from kdkit.losses.foreign import (
    FOCAL,
    MEANS,
    ON_CLASSES,
    WITHOUT_LOGITS,
    loss_kinds,
    takes_logits,
)
from kdkit.taps import keras_mask

# Losses whose labels are shares between 0 and 1, of one class or of each.
_ON_SHARES = {"categoricalcrossentropy", "categoricalfocalcrossentropy"}
_ON_ANY_SHARES = {"categoricalcrossentropy", "binarycrossentropy", *FOCAL}
LEAST_THRESHOLD = 1e-7  # F1Score accepts thresholds above 0 only


def require_labels(loss, labels):
    """Raises an error if the labels or the compiled loss are missing."""
    if labels is None or loss is None:
        raise UsageError(
            "A hard_label_weight above 0 needs data with labels and "
            "compile(loss=...)."
        )


def require_loss_on_logits(loss, num_classes):
    """Raises an error if a compiled loss does not take the student's logits."""
    for given in keras.tree.flatten(loss):
        one = keras.losses.get(given)
        if one is None:
            continue
        kinds = loss_kinds(one)
        name = getattr(one, "name", None) or getattr(one, "__name__", one)
        if kinds & WITHOUT_LOGITS or takes_logits(one) is False:
            raise UsageError(
                f"The compiled loss {name} expects probabilities, but the "
                "student's output is logits. Pass a loss with from_logits=True."
            )
        if num_classes == 1 and kinds & (ON_CLASSES | _ON_SHARES):
            raise UsageError(
                f"The compiled loss {name} applies a softmax, which is always "
                "1 for the student's single logit."
            )


def require_metrics_on_logits(metrics, num_classes):
    """Raises an error for compiled metrics that expect probabilities."""
    for given in keras.tree.flatten(metrics):
        if given in ("accuracy", "acc") and num_classes == 1:
            given = "binary_accuracy"
        elif given is None or given in ("accuracy", "acc"):
            continue
        needed = _missing_argument(keras.metrics.get(given), num_classes)
        if needed is not None:
            raise UsageError(
                f"The compiled metric {given} expects probabilities, but the "
                f"student's output is logits. It needs {needed}."
            )


def _missing_argument(metric, num_classes):
    """Returns what a metric needs to be right on logits, `None` for nothing."""
    if isinstance(metric, keras.metrics.Metric):
        config = metric.get_config()
    elif getattr(metric, "__module__", "").startswith("keras."):
        arguments = inspect.signature(metric).parameters
        config = {name: one.default for name, one in arguments.items()}
    else:
        return None
    threshold = config.get("threshold")
    has_no_argument = "num_thresholds" in config and "from_logits" not in config
    if has_no_argument or isinstance(metric, keras.metrics.KLDivergence):
        return "probabilities"
    if config.get("from_logits") is False:
        return "from_logits=True"
    if isinstance(metric, keras.metrics.FBetaScore):
        takes_largest = threshold is None and num_classes > 1
        fits = takes_largest or threshold == LEAST_THRESHOLD
        return None if fits else f"threshold={LEAST_THRESHOLD}"
    if threshold == 0.5:
        return "threshold=0.0"
    if "thresholds" in config and (
        config["thresholds"] is config.get("top_k") is None
    ):
        return "thresholds=0.0"
    return None


def require_label_values(loss, y, num_classes):
    """Raises an error for labels that the compiled loss does not accept."""
    loss = keras.losses.get(single(loss))
    labels = ops.convert_to_numpy(single(y))
    kinds = loss_kinds(loss)
    if kinds & ON_CLASSES:
        labels = labels[labels != _ignored_class(loss)]
        wrong = labels[(labels < 0) | (labels >= num_classes)]
        expected = f"classes from 0 to {num_classes - 1}"
    elif kinds & _ON_ANY_SHARES:
        wrong = labels[(labels < 0) | (labels > 1)]
        expected = "numbers from 0 to 1"
    else:
        return
    if wrong.size:
        first = np.unique(wrong)[:5]
        values = ", ".join(f"{value:g}" for value in first)
        raise UsageError(
            "The first batch has labels that the compiled loss does not take. "
            f"Expected {expected}, received {values}."
        )


def _ignored_class(loss):
    """Returns the label that a loss ignores, or `None`."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("ignore_class")
    return getattr(loss, "keywords", {}).get("ignore_class")


def single(structure):
    """Returns the only entry of a dict or list, or the value itself."""
    return keras.tree.flatten(structure)[0]


def spread_label_weights(x, y, y_pred, sample_weight):
    """Returns the labels' sample weights, per position for labels per position.

    Keras' mean with sample weights divides by the sum of the weights as given.
    For labels per position the sum of one weight per example is too small.

    Args:
        x: the inputs of the models.
        y: tensor of labels.
        y_pred: the model's only output, or `None` if it is computed in chunks,
            for a decoder whose labels have shape `(batch_size,
            sequence_length)`.
        sample_weight: `None` or tensor.
    """
    weights = label_weights(x, sample_weight)
    tensor = y if y_pred is None else single(y_pred)
    per_position = y_pred is None or tensor.ndim == 3
    if weights is None or not per_position:
        return weights
    # A copy, which Keras multiplies by a mask in place on PyTorch.
    return ops.copy(position_weights(tensor, weights))


def label_count(loss, labels, sample_weight, y_pred=None):
    """Returns the denominator of the mean in a compiled loss; 1 for a sum.

    The value may be off by a factor that all replicas share. Replicas with
    unequal shares of a batch multiply their means by it, so that these add up
    to the mean over the batch.

    Args:
        loss: the compiled loss.
        labels: tensor of shape `(batch_size, ...)`.
        sample_weight: `None` or tensor.
        y_pred: the model's output, whose Keras mask counts, or `None`.
    """
    loss, labels = single(loss), single(labels)
    mask = None if y_pred is None else keras_mask(single(y_pred))
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    if reduction not in MEANS:
        return ops.ones((), dtype="float32")
    counts = ops.ones_like(labels)
    if _counts_weights(loss, sample_weight):
        counts = sample_weight
    elif _ignored_class(loss) is not None:
        counts = labels != _ignored_class(loss)
    counts = ops.cast(counts, "float32")
    if mask is not None and mask.ndim <= counts.ndim:
        # Not in place: PyTorch would change the sample weights.
        counts = counts * append_axes(ops.cast(mask, "float32"), counts.ndim)
    return ops.sum(counts)


def _counts_weights(loss, sample_weight):
    """Whether a compiled loss is divided by the sum of the sample weights."""
    by_weight = getattr(loss, "reduction", None) == "mean_with_sample_weight"
    return by_weight and sample_weight is not None


def label_term(loss, hard_label_weight, x, y, sample_weight):
    """Returns a compiled loss as a `ChunkTerm`, or none if its weight is 0.

    Args:
        loss: `keras.losses.SparseCategoricalCrossentropy` on logits, or
            `kdkit.losses.SmoothedCrossEntropy`.
        hard_label_weight: float. Weight of the loss on the labels.
        x: the inputs of the models.
        y: tensor of labels of shape `(batch_size, sequence_length)`.
        sample_weight: the weights of the data, or `None`.

    Raises:
        UsageError: for other losses, or for a loss that ignores a class.
    """
    if not hard_label_weight:
        return []
    reduction = getattr(loss, "reduction", None)
    if not (
        loss_kinds(loss) & ON_CLASSES
        and _ignored_class(loss) is None
        and reduction in MEANS
    ):
        raise UsageError(
            "With chunk_size the loss must be SparseCategoricalCrossentropy("
            "from_logits=True) or SmoothedCrossEntropy, with a mean. Received: "
            f"{loss}, reduction={reduction!r}."
        )

    def sums(labels, logits, weights):
        losses = loss.call(labels, ops.cast(logits, "float32"))
        return ops.sum(weights * losses), ops.sum(weights)

    sample_weight = spread_label_weights(x, y, None, sample_weight)
    count = label_count(loss, y, sample_weight)
    weights = position_weights(y, sample_weight)
    term = ChunkTerm(
        sums=sums,
        target=y,
        embeddings=None,
        weights=weights,
        total_weight=count,
        factor=hard_label_weight,
    )
    return [term]
