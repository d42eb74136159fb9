"""The compiled loss on labels, for logits that are never all there."""

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.losses import SmoothedCrossEntropy
from kdkit.losses.base import safe_divide
from kdkit.objectives.chunks import ChunkTerm
from kdkit.objectives.replicas import sum_over_replicas
from kdkit.objectives.weights import label_weights
from kdkit.objectives.weights import position_weights

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def check_labels(hard_label_weight, loss, labels) -> None:
    """Refuses a loss on labels that has no labels or is no loss.

    Raises:
        UsageError: if one of them is missing.
    """
    if labels is None or loss is None:
        raise UsageError(
            "A `hard_label_weight` above 0 needs data with labels and a "
            "compiled loss. Received: hard_label_weight="
            f"{hard_label_weight}, labels: {labels is not None}, loss: "
            f"{loss is not None}. Pass (x, y) and compile(loss=...), or set "
            "hard_label_weight=0.0."
        )


def check_taken_apart(loss) -> None:
    """Refuses a compiled loss that is no sum over positions.

    Args:
        loss: `keras.losses.SparseCategoricalCrossentropy` of logits, or
            `kdkit.losses.SmoothedCrossEntropy`.

    Raises:
        UsageError: for other losses, or one that leaves labels out.
    """
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    of_all_labels = isinstance(loss, SmoothedCrossEntropy) or (
        isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
        and config["from_logits"]
        and config["ignore_class"] is None
    )
    if not of_all_labels or loss.reduction not in REDUCTIONS:
        raise UsageError(
            "With chunk_size the compiled loss is taken apart. Expected "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True) or "
            "kdkit.losses.SmoothedCrossEntropy, its reduction one of "
            f"{REDUCTIONS}. Received: {loss}, {config}."
        )


def weights_of_labels(x, y, y_pred, sample_weight):
    """The sample weights of the labels, per position where these have some.

    Keras' mean over weights divides by those that it is given; of rows, they
    are too few for labels per position.

    Args:
        x: the inputs of the models.
        y: tensor of labels.
        y_pred: tensor of logits, or `None` where they are taken in chunks, of
            a decoder whose labels have shape `(batch_size, sequence_length)`.
        sample_weight: `None` or tensor.
    """
    weights = label_weights(x, sample_weight)
    of_positions = y_pred is None or len(y_pred.shape) == 3
    if weights is None or not of_positions:
        return weights
    return position_weights(y if y_pred is None else y_pred, weights)


def single(structure):
    """Returns the one entry of a dict or list of one output, or what is none.

    Args:
        structure: labels or a loss, as Keras takes them for one output.
    """
    return keras.tree.flatten(structure)[0]


def label_term(loss, labels, sample_weight, hard_label_weight) -> ChunkTerm:
    """Returns a compiled loss as a term for `chunked_sums`.

    Args:
        loss: as in `check_taken_apart`.
        labels: tensor of shape `(batch_size, sequence_length)`.
        sample_weight: `None` or tensor, as in `label_count`.
        hard_label_weight: float. Weight of the loss on the labels.

    Raises:
        UsageError: as `check_taken_apart`.
    """
    check_taken_apart(loss)

    def sums(labels, logits, weights):
        losses = loss.call(labels, ops.cast(logits, "float32"))
        return ops.sum(weights * losses), ops.sum(weights)

    def coefficient(denominator):
        one = ops.ones_like(denominator)
        of_replica = mean_label_loss(loss, labels, (one, denominator))
        count = label_count(loss, labels, sample_weight)
        (total,) = sum_over_replicas([count])
        return hard_label_weight * of_replica * safe_divide(count, total)

    weights = position_weights(labels, sample_weight)
    return ChunkTerm(sums, labels, weights, coefficient)


def label_count(loss, labels, sample_weight):
    """Returns what the mean that is a compiled loss was divided by.

    Up to a factor that all replicas share, so that means over replicas of
    unequal shares of a batch add up to the mean over the batch. 1 for a sum.

    Args:
        loss: the compiled loss.
        labels: tensor of shape `(batch_size, ...)`.
        sample_weight: `None` or tensor.
    """
    loss, labels = single(loss), single(labels)
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    if reduction not in REDUCTIONS:
        return ops.ones((), dtype="float32")
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        return ops.sum(ops.cast(sample_weight, "float32"))
    return ops.cast(ops.shape(labels)[0], "float32")


def mean_label_loss(loss, labels, sums):
    """Returns what the compiled loss is, from the sums of its term.

    Args:
        loss: as in `label_term`.
        labels: as in `label_term`.
        sums: tuple of Σ weight × loss and Σ weight.
    """
    top, bottom = sums
    if loss.reduction != "mean_with_sample_weight":
        bottom = ops.cast(ops.size(labels), "float32")
    return safe_divide(top, bottom)
