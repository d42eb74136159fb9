"""Objectives bound to two models: layer pairs, projections, weighted sums."""

import functools
import math
from collections.abc import Iterable

import keras
from keras import ops

from kdkit.backends import on_tensorflow, tf
from kdkit.distillation.chunks import ChunkTerm
from kdkit.distillation.layer_maps import layer_map as make_layer_map
from kdkit.distillation.objective import Objective, shown_tap
from kdkit.distillation.weights import (
    combine_weights,
    label_weights,
    objective_masks,
    objective_weights,
    pair_weights,
    position_weights,
)
from kdkit.errors import UsageError
from kdkit.losses import Matryoshka, RelationKLDivergence, SmoothedCrossEntropy
from kdkit.losses.base import STATE_TAPS, safe_divide
from kdkit.taps import (
    ATTENTION_TAPS,
    PER_LAYER_TAPS,
    SENTENCE_EMBEDDING,
    VECTOR_TAPS,
    Entry,
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
            the models' sizes do not fit. One message lists all errors.
    """
    wrong_types = [
        type(objective).__name__
        for objective in objectives
        if not isinstance(objective, Objective)
    ]
    if wrong_types:
        raise UsageError(
            "Invalid value for argument `objectives`. Expected a list of "
            f"kdkit.Objective. Received in it: {', '.join(wrong_types)}. Wrap "
            "a loss as kdkit.Objective(loss)."
        )
    if not objectives:
        raise UsageError(
            "A Distiller needs at least one objective. Received: "
            "objectives=[]. To train on labels only, compile and fit the "
            "student itself."
        )
    problems = _name_errors(objectives)
    problems += _label_weight_errors(hard_label_weight, student)
    bound = []
    for objective in objectives:
        try:
            bound.append(_bind_one(objective, teacher, student, dtype, suffix))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    return bound


def _bind_one(objective, teacher, student, dtype, suffix):
    for role, shape, tap in zip(
        ("teacher", "student"), (teacher, student), objective.taps, strict=True
    ):
        require_taps((tap,), shape, f"the {role}")
    pairs = _pairs(objective, teacher, student)
    _require_matching_sizes(objective, teacher, student)
    projections = {}
    if objective.projection is not None:
        widths = student.width(objective.tap), teacher.width(objective.tap)
        if objective.reads_layers:
            theirs, ours = _layer_shapes(objective, teacher, student)
            widths = ours[-1], theirs[-1]
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


def _name_errors(objectives):
    """Returns errors about the objectives' names, as a list of strings."""
    names = [objective.name for objective in objectives]
    clashes = sorted(
        {name for name in names if names.count(name) > 1}
        | (set(names) & set(RESERVED_NAMES))
    )
    if not clashes:
        return []
    return [
        "Objective names must differ from each other and from "
        f"{RESERVED_NAMES}, because each is a scalar in the logs. Received: "
        f"{clashes}. Pass name=... to Objective."
    ]


def _label_weight_errors(hard_label_weight, student):
    """Returns errors about the labels' weight, as a list of strings."""
    if not (math.isfinite(hard_label_weight) and hard_label_weight >= 0):
        return [
            "Invalid value for argument `hard_label_weight`. Expected a finite "
            "number of at least 0. Received: "
            f"hard_label_weight={hard_label_weight}."
        ]
    if hard_label_weight and student.num_classes is None:
        return [
            "A `hard_label_weight` above 0 needs a student with a head, whose "
            "output is logits. Received: a backbone, hard_label_weight="
            f"{hard_label_weight}. Add a head to the student."
        ]
    return []


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
    """Raises a `UsageError` if the models' sizes do not fit the objective."""
    tap = objective.tap
    name = objective.name
    if objective.reads_layers:
        _require_matching_layers(objective, teacher, student)
        return
    _, kind = split_tap(tap)
    if (
        kind in STATE_TAPS
        and objective.loss.needs_same_width
        and objective.projection is None
        and teacher.width(tap) != student.width(tap)
    ):
        size, others = "hidden_dim", ""
        if tap == SENTENCE_EMBEDDING:
            size = "dimensions"
            others = (
                ", reduce the teacher's width with kdkit.models.reduce_width, "
                "or use SimilarityKLDivergence, which accepts different widths"
            )
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} of different widths "
            f"without a projection. Received: teacher {size}="
            f"{teacher.width(tap)}, student {size}={student.width(tap)}. "
            f'Pass projection="shared" or projection="per_layer"{others}.'
        )
    if isinstance(objective.loss, Matryoshka):
        objective.loss.require_width(student.width(tap))
    relations = isinstance(objective.loss, RelationKLDivergence)
    if relations:
        num_relation_heads = objective.loss.num_relation_heads
        for role, shape in (("teacher", teacher), ("student", student)):
            if shape.hidden_dim % num_relation_heads:
                raise UsageError(
                    f"Objective {name!r}: num_relation_heads must divide the "
                    f"{role}'s width. Received: num_relation_heads="
                    f"{num_relation_heads}, hidden_dim={shape.hidden_dim}."
                )
    compares_units = objective.loss.needs_same_width
    compares_heads = kind in ATTENTION_TAPS + VECTOR_TAPS and compares_units
    if compares_heads and teacher.num_heads != student.num_heads:
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} head by head, but the "
            "numbers of heads differ. Received: teacher num_heads="
            f"{teacher.num_heads}, student num_heads={student.num_heads}. "
            "Build the student with as many heads as the teacher, or use "
            'RelationKLDivergence on the taps "queries", "keys", "values".'
        )
    if (
        kind in VECTOR_TAPS
        and compares_units
        and teacher.hidden_dim != student.hidden_dim
    ):
        raise UsageError(
            f"Objective {name!r} compares tap {tap!r} of different widths. "
            f"Received: teacher hidden_dim={teacher.hidden_dim}, student "
            f"hidden_dim={student.hidden_dim}. Use RelationKLDivergence, "
            "which accepts different widths."
        )
    if tap == "logits" and teacher.num_classes < objective.loss.min_classes:
        raise UsageError(
            f"Objective {name!r} compares the logits of an example with each "
            "other, so nothing would be learned from a single one. Expected "
            f"at least {objective.loss.min_classes} logits. Received: "
            f"{type(objective.loss).__name__}, and a teacher with "
            f"{teacher.num_classes} logit. Use kdkit.losses.LogitMSE() for "
            "scores, or kdkit.losses.SoftBinaryCrossEntropy() for yes or no."
        )
    if tap == "logits" and teacher.num_classes != student.num_classes:
        raise UsageError(
            f"Objective {name!r} compares logits for different class counts. "
            f"Received: teacher num_classes={teacher.num_classes}, student "
            f"num_classes={student.num_classes}. Build the student with "
            f"num_classes={teacher.num_classes}."
        )


def _layer_shapes(objective, teacher, student):
    """Returns the shapes of the two tensors that an objective compares."""
    shapes = zip((teacher, student), objective.taps, strict=True)
    return [shape.layer_shape(tap) for shape, tap in shapes]


def _require_matching_layers(objective, teacher, student):
    """Raises a `UsageError` if the outputs of two layers cannot be compared."""
    theirs, ours = _layer_shapes(objective, teacher, student)
    received = (
        f"Objective {objective.name!r}, tap={shown_tap(objective.tap)}: "
        f"teacher of shape {theirs}, student of shape {ours}."
    )
    sizes = zip(theirs[1:-1], ours[1:-1], strict=False)
    if len(theirs) != len(ours) or any(
        None not in pair and pair[0] != pair[1] for pair in sizes
    ):
        raise UsageError(
            "The outputs of two layers differ in more than their last axis. "
            f"Received: {received} Use layers of the same shape, or make "
            "the shapes equal with functions as taps, such as tap=(lambda "
            "outputs: keras.ops.mean(outputs['conv'], axis=(1, 2)), ...)."
        )
    if len(ours) < 2 or None in (theirs[-1], ours[-1]):
        raise UsageError(
            "The outputs of layers need a last axis of known size. Received: "
            f"{received} Use other layers, or functions that return such "
            "tensors."
        )
    if (
        objective.loss.needs_same_width
        and objective.projection is None
        and theirs[-1] != ours[-1]
    ):
        raise UsageError(
            "The outputs of two layers have different widths. Received: "
            f'{received} Pass projection="shared".'
        )


REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def require_labels(hard_label_weight, loss, labels) -> None:
    """Raises an error if the labels or the compiled loss are missing.

    Raises:
        UsageError: if one of them is `None`.
    """
    if labels is None or loss is None:
        raise UsageError(
            "A `hard_label_weight` above 0 needs data with labels and a "
            "compiled loss. Received: hard_label_weight="
            f"{hard_label_weight}, labels: {labels is not None}, loss: "
            f"{loss is not None}. Pass (x, y) and compile(loss=...), or set "
            "hard_label_weight=0.0."
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
            "This loss cannot be computed in chunks of positions. Expected "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True) or "
            "kdkit.losses.SmoothedCrossEntropy with a reduction in "
            f"{REDUCTIONS}. Received: {loss}, {config}. Change the loss, or "
            "omit chunk_size."
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
