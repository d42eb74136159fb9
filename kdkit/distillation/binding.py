"""Objectives bound to two models: layer pairs, projections, weighted sums."""

import functools
import math
from collections.abc import Iterable

import keras
from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.distillation.chunks import ChunkTerm
from kdkit.distillation.layer_maps import layer_map as make_layer_map
from kdkit.distillation.objective import Objective
from kdkit.distillation.weights import (
    combine_weights,
    label_weights,
    objective_masks,
    objective_weights,
    pair_weights,
    position_weights,
)
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.losses import SmoothedCrossEntropy
from kdkit.losses.base import STATE_TAPS, safe_divide
from kdkit.taps import (
    ATTENTION_TAPS,
    PER_LAYER_TAPS,
    VECTOR_TAPS,
    Entry,
    is_layer_tap,
    require_taps,
    split_tap,
    tap_name,
)

# Names of the Distiller's other scalars.
RESERVED_NAMES = ("loss", "hard_label_loss")


def as_tuple(objectives) -> tuple:
    """Returns objectives as a tuple, also if a single one is given.

    Args:
        objectives: iterable of `kdkit.Objective`, or one of them.
    """
    if isinstance(objectives, Iterable) and not isinstance(objectives, str):
        return tuple(objectives)
    return (objectives,)


def bind(
    objectives, hard_label_weight, teacher, student, dtype=None, suffix=""
):
    """Checks objectives against two models and builds the projections.

    Args:
        objectives: iterable of `kdkit.Objective`.
        hard_label_weight: float. Weight of the loss on the labels.
        teacher: `kdkit.taps.ModelShape` of the teacher.
        student: `kdkit.taps.ModelShape` of the student.
        dtype: dtype or policy of the projections.
        suffix: string. Added to the names of the projections, so that those of
            several teachers differ.

    Returns:
        A list of `BoundObjective`s.

    Raises:
        UsageError: if the objectives' names clash, the weight is invalid or
            the models' sizes do not fit.
    """
    _require_names(objectives)
    if not (math.isfinite(hard_label_weight) and hard_label_weight >= 0):
        raise UsageError(
            "`hard_label_weight` must be at least 0 and finite, received "
            f"{hard_label_weight}."
        )
    return [
        _bind_one(objective, teacher, student, dtype, suffix)
        for objective in objectives
    ]


def _bind_one(objective, teacher, student, dtype, suffix):
    for shape, tap in zip((teacher, student), objective.taps, strict=True):
        require_taps((tap,), shape)
    pairs = _pairs(objective, teacher, student)
    widths = _require_matching_sizes(objective, teacher, student)
    projections = {}
    if objective.projection is not None:
        projections = objective.projection.build(
            objective.name + suffix,
            *widths,
            [student_index for student_index, _ in pairs],
            dtype,
        )
    return BoundObjective(
        objective, tuple(pairs), projections, teacher.num_classes
    )


def teacher_entry(
    objective: Objective, layer: int, num_classes: int | None
) -> Entry:
    """Returns the entry that an objective reads from a teacher's layer.

    Args:
        objective: `kdkit.Objective`.
        layer: int, as in `kdkit.taps.Entry`.
        num_classes: int or `None`. The number of the teacher's logits, if it
            has any.
    """
    top_k = objective.loss.top_k
    if objective.tap != "logits" or top_k is None or top_k >= num_classes:
        return Entry(tap_name(objective.taps[0]), layer)
    return Entry("logits", 0, top_k, objective.loss.temperature)


def _require_names(objectives):
    """Requires different names: each is a scalar in the logs."""
    names = [*RESERVED_NAMES, *(objective.name for objective in objectives)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"Two values in the logs have the name {name!r}. Pass name=... "
                "to Objective."
            )


class BoundObjective:
    """An objective with its pairs and projections for two given models."""

    def __init__(self, objective, pairs, projections, num_classes):
        self.objective = objective
        self.pairs = pairs
        self.projections = projections
        self._num_classes = num_classes

    @property
    def teacher_entries(self) -> set[Entry]:
        """The entries that are read from the teacher's taps."""
        return {self._entry(layer) for _, layer in self.pairs}

    def _entry(self, layer):
        return teacher_entry(self.objective, layer, self._num_classes)

    def sums(
        self,
        teacher_taps,
        student_taps,
        x,
        sample_weight,
    ):
        """Returns Σ weight × value, summed over the pairs, and Σ weight."""
        tap = tap_name(self.objective.taps[1])
        padding_mask, key_padding_mask = objective_masks(tap, x)
        sample_weight = self._objective_weights(x, sample_weight)
        numerators = []
        for student_index, teacher_index in self.pairs:
            sums, teacher = self._compared(teacher_taps, teacher_index)
            student = Entry(tap, student_index).read(student_taps)
            weights = combine_weights(tap, student, padding_mask, sample_weight)
            weights = pair_weights(tap, student, weights, key_padding_mask)
            projection = self.projections.get(student_index)
            if projection is not None:
                student = projection(student)
            # Every pair has the same shapes and so the same denominator.
            numerator, denominator = sums(teacher, student, weights)
            numerators.append(numerator)
        total = sum(numerators)
        if self.objective.pair_reduction == "mean":
            total /= len(self.pairs)
        return total, denominator

    def _objective_weights(self, x, sample_weight):
        if not self.objective.use_sample_weight:
            return None
        tap = tap_name(self.objective.taps[1])
        return objective_weights(tap, x, sample_weight)

    def _compared(self, teacher_taps, layer):
        """Returns the loss's sums function and its teacher tensor."""
        entry, loss = self._entry(layer), self.objective.loss
        is_top_only = entry.top_k and entry.name in teacher_taps
        if is_top_only:
            sums = loss.top_sums
        else:
            sums = functools.partial(loss.sums, subtract_entropy=True)
        return sums, entry.read(teacher_taps)

    def chunk_term(
        self,
        teacher_taps,
        student_taps,
        x,
        sample_weight,
        teacher_weight,
    ):
        """The term for `chunked_sums`, if the objective is on logits."""
        padding_mask, _ = objective_masks("logits", x)
        sample_weight = self._objective_weights(x, sample_weight)
        weight = self.objective.weight * teacher_weight
        states = student_taps["logits"].states
        weights = combine_weights("logits", states, padding_mask, sample_weight)

        def coefficient(denominator):
            (total,) = sum_over_replicas([denominator])
            return safe_divide(weight * ops.ones_like(total), total)

        return ChunkTerm(
            *self._compared(teacher_taps, 0),
            position_weights(states, weights),
            coefficient,
        )


def _pairs(objective, teacher, student):
    """Returns pairs of student and teacher layer, (0, 0) if not per layer."""
    tap = objective.tap
    kind = None if objective.reads_layers else split_tap(tap)[1]
    if kind not in PER_LAYER_TAPS:
        return [(0, 0)]
    pairs = list(
        make_layer_map(
            objective.layer_map, teacher.depth(tap), student.depth(tap)
        ).items()
    )
    if kind == "hidden_states" and objective.include_embeddings:
        pairs.insert(0, (0, 0))
    return pairs


def _require_matching_sizes(objective, teacher, student):
    """Returns the sizes of student and teacher, equal if nothing maps them."""
    ours, theirs = (
        _compared_size(tap, shape)
        for tap, shape in zip(
            objective.taps[::-1], (student, teacher), strict=True
        )
    )
    if (
        objective.loss.needs_same_width
        and objective.projection is None
        and ours != theirs
    ):
        is_state = split_tap(objective.taps[0])[1] in STATE_TAPS
        can_map = is_state or objective.reads_layers
        hint = ' Pass projection="shared".' if can_map else ""
        raise UsageError(
            f"Objective {objective.name!r} compares tensors of different "
            f"sizes: {theirs} in the teacher, {ours} in the student.{hint}"
        )
    if objective.tap == "logits" and theirs < objective.loss.min_classes:
        raise UsageError(
            f"Objective {objective.name!r} learns nothing from a single logit. "
            "Use LogitMSE for scores, SoftBinaryCrossEntropy for yes or no."
        )
    return ours, theirs


def _compared_size(tap, shape):
    """The size of a tap that must be equal: a width, or a number of heads."""
    if is_layer_tap(tap):
        return shape.layer_shape(tap)[-1]
    _, kind = split_tap(tap)
    if kind == "logits":
        return shape.num_classes
    if kind in ATTENTION_TAPS:
        return shape.num_heads
    if kind in VECTOR_TAPS:
        return shape.num_heads, shape.hidden_dim
    return shape.width(tap)


REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def require_labels(hard_label_weight, loss, labels) -> None:
    """Raises an error if the labels or the compiled loss are missing.

    Raises:
        UsageError: if one of them is `None`.
    """
    if labels is None or loss is None:
        raise UsageError(
            f"hard_label_weight={hard_label_weight} needs data with labels and "
            "compile(loss=...)."
        )


def require_chunkable_loss(loss) -> None:
    """Raises an error if a compiled loss cannot be computed in chunks.

    Args:
        loss: `keras.losses.SparseCategoricalCrossentropy` on logits, or
            `kdkit.losses.SmoothedCrossEntropy`.

    Raises:
        UsageError: for other losses, or for a loss that ignores a class.
    """
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    counts_all_labels = isinstance(loss, SmoothedCrossEntropy) or (
        isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
        and config["from_logits"]
        and config["ignore_class"] is None
    )
    if not counts_all_labels or loss.reduction not in REDUCTIONS:
        raise UsageError(
            "With chunk_size the loss must be SparseCategoricalCrossentropy("
            "from_logits=True) or SmoothedCrossEntropy, with a mean. Received: "
            f"{loss}, {config}."
        )


def spread_label_weights(x, y, y_pred, sample_weight):
    """Returns the labels' sample weights, per position for labels per position.

    Keras' mean with sample weights divides by the sum of the weights as given.
    For labels per position the sum of one weight per example is too small.

    Args:
        x: the inputs of the models.
        y: tensor of labels.
        y_pred: tensor of logits, or `None` if they are computed in chunks, for
            a decoder whose labels have shape `(batch_size, sequence_length)`.
        sample_weight: `None` or tensor.
    """
    weights = label_weights(x, sample_weight)
    per_position = y_pred is None or len(y_pred.shape) == 3
    if weights is None or not per_position:
        return weights
    return position_weights(y if y_pred is None else y_pred, weights)


def single(structure):
    """Returns the only entry of a dict or list, or the value itself."""
    return keras.tree.flatten(structure)[0]


def label_term(loss, labels, sample_weight, hard_label_weight) -> ChunkTerm:
    """Returns a compiled loss as a `ChunkTerm` for `chunked_sums`.

    Args:
        loss: as in `require_chunkable_loss`.
        labels: tensor of shape `(batch_size, sequence_length)`.
        sample_weight: `None` or tensor, as in `label_count`.
        hard_label_weight: float. Weight of the loss on the labels.

    Raises:
        UsageError: as in `require_chunkable_loss`.
    """
    require_chunkable_loss(loss)

    def sums(labels, logits, weights):
        losses = loss.call(labels, ops.cast(logits, "float32"))
        return ops.sum(weights * losses), ops.sum(weights)

    def coefficient(denominator):
        one = ops.ones_like(denominator)
        replica_loss = mean_label_loss(loss, labels, (one, denominator))
        count = label_count(loss, labels, sample_weight)
        (total,) = sum_over_replicas([count])
        return hard_label_weight * replica_loss * safe_divide(count, total)

    weights = position_weights(labels, sample_weight)
    return ChunkTerm(sums, labels, weights, coefficient)


def label_count(loss, labels, sample_weight):
    """Returns the denominator of the mean in a compiled loss; 1 for a sum.

    The value may be off by a factor that all replicas share. Replicas with
    unequal shares of a batch multiply their means by it, so that these add up
    to the mean over the batch.

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
    """Returns the value of the compiled loss from the two sums of its term.

    Args:
        loss: as in `label_term`.
        labels: as in `label_term`.
        sums: tuple of Σ weight × loss and Σ weight.
    """
    top, bottom = sums
    if loss.reduction != "mean_with_sample_weight":
        bottom = ops.cast(ops.size(labels), "float32")
    return safe_divide(top, bottom)


def sum_over_replicas(values):
    """Sums scalars over the strategy's replicas, without gradient."""
    values = [ops.stop_gradient(value) for value in values]
    if not on_tensorflow():  # no replicas: one program has the whole batch
        return values
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return values
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, ops.stack(values))
    return ops.unstack(total, num=len(values))
