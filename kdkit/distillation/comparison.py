"""What a student is compared with: its teachers, and one term for each."""

import dataclasses
import functools

import keras
from keras import ops

from kdkit.distillation.chunks import ChunkTerm, chunked_sums
from kdkit.distillation.layer_maps import layer_map
from kdkit.distillation.objective import Objective, require_weight
from kdkit.distillation.weights import (
    combine_weights,
    objective_masks,
    objective_weights,
    pair_weights,
    position_weights,
)
from kdkit.errors import UsageError
from kdkit.losses.base import safe_divide
from kdkit.steps import sum_over_replicas
from kdkit.taps import (
    PER_LAYER_TAPS,
    TEACHER_OUTPUTS,
    Entry,
    ModelShape,
    describe,
    require_taps,
    split_tap,
    tap_name,
    tapped,
)

# Names of the Distiller's other scalars.
RESERVED_NAMES = ("loss", "hard_label_loss")


def compared_layers(objective, teacher, student) -> list[tuple[int, int]]:
    """Returns pairs of a student's and a teacher's layer, if the sizes fit.

    Args:
        objective: `kdkit.Objective`.
        teacher: `kdkit.taps.ModelShape` of the teacher.
        student: `kdkit.taps.ModelShape` of the student.

    Returns:
        List of pairs of ints, `[(0, 0)]` for a tap that is not per layer.

    Raises:
        UsageError: if a model lacks a tap, or its sizes do not fit.
    """
    for shape, tap in zip((teacher, student), objective.taps, strict=True):
        require_taps((tap,), shape)
    tap, pairs = objective.tap, {}
    kind = None if objective.reads_layers else split_tap(tap)[1]
    if kind in PER_LAYER_TAPS:
        depths = teacher.depth(tap), student.depth(tap)
        pairs = layer_map(objective.layer_map, *depths)
    if not pairs or (kind == "hidden_states" and objective.include_embeddings):
        pairs = {0: 0, **pairs}
    _require_sizes(objective, *_sizes(objective, teacher, student))
    return [*pairs.items()]


def _sizes(objective, teacher, student):
    """The sizes of both taps that must be equal: widths, numbers of heads."""
    return [
        shape.width(tap)
        for tap, shape in zip(objective.taps, (teacher, student), strict=True)
    ]


def _require_sizes(objective, theirs, ours):
    """Requires equal sizes if nothing maps them, and logits that differ."""
    needs_same = objective.loss.needs_same_width
    if needs_same and objective.projection is None and ours != theirs:
        raise UsageError(
            f"Objective {objective.name!r} compares tensors of different "
            f"sizes: {theirs} in the teacher, {ours} in the student. States "
            'need projection="shared".'
        )
    if objective.tap == "logits" and theirs < objective.loss.min_classes:
        raise UsageError(
            f"Objective {objective.name!r} learns nothing from a single logit. "
            "Use LogitMSE for scores, SoftBinaryCrossEntropy for yes or no."
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


def teacher_entries(
    objectives, teacher: ModelShape, student: ModelShape
) -> tuple[Entry, ...]:
    """Returns the entries that objectives read from a teacher, sorted.

    Args:
        objectives: iterable of `kdkit.Objective`.
        teacher: `kdkit.taps.ModelShape` of the teacher.
        student: `kdkit.taps.ModelShape` of the student.

    Raises:
        UsageError: if an objective does not fit the models.
    """
    entries = {
        teacher_entry(objective, layer, teacher.num_classes)
        for objective in objectives
        for _, layer in compared_layers(objective, teacher, student)
    }
    return tuple(sorted(entries))


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """An objective between the student and one of its teachers."""

    objective: Objective
    teacher: int  # its number, from 0
    share: float  # of this teacher in the objective's value
    num_classes: int | None
    pairs: list
    projections: dict

    def sums(self, teachers_taps, student_taps, x, sample_weight):
        """Returns Σ weight × value, summed over the pairs, and Σ weight."""
        tap = tap_name(self.objective.taps[1])
        query_mask, key_mask = objective_masks(tap, x)
        sample_weight = self._weights_of_data(tap, x, sample_weight)
        total = 0
        for student_layer, teacher_layer in self.pairs:
            sums, teacher = self._compared(teachers_taps, teacher_layer)
            student = Entry(tap, student_layer).read(student_taps)
            weights = combine_weights(tap, student, query_mask, sample_weight)
            weights = pair_weights(tap, student, weights, key_mask)
            if student_layer in self.projections:
                student = self.projections[student_layer](student)
            # Every pair has the same shapes and so the same denominator.
            top, bottom = sums(teacher, student, weights)
            total += top
        if self.objective.pair_reduction == "mean":
            total /= len(self.pairs)
        return total, bottom

    def chunk_term(self, teachers_taps, student_taps, x, sample_weight):
        """Returns an objective on logits as a term of `chunked_sums`."""
        query_mask, _ = objective_masks("logits", x)
        sample_weight = self._weights_of_data("logits", x, sample_weight)
        states = student_taps["logits"].states
        weights = combine_weights("logits", states, query_mask, sample_weight)
        factor = self.objective.weight * self.share

        def coefficient(denominator):
            (total,) = sum_over_replicas([denominator])
            return safe_divide(factor * ops.ones_like(total), total)

        return ChunkTerm(
            *self._compared(teachers_taps, 0),
            position_weights(states, weights),
            coefficient,
        )

    def _weights_of_data(self, tap, x, sample_weight):
        if not self.objective.use_sample_weight:
            return None
        return objective_weights(tap, x, sample_weight)

    def _compared(self, teachers_taps, layer):
        """Returns the loss's sums function and its teacher tensor."""
        taps, loss = teachers_taps[self.teacher], self.objective.loss
        entry = teacher_entry(self.objective, layer, self.num_classes)
        if entry.top_k and entry.name in taps:
            return loss.top_sums, entry.read(taps)
        sums = functools.partial(loss.sums, subtract_entropy=True)
        return sums, entry.read(taps)


class Comparison:
    """The parts of a `Distiller` that Keras must neither track nor save.

    Args:
        teachers: list of `keras.Model`, or of `kdkit.taps.ModelShape`.
        student: `keras.Model`.
        objectives: tuple of `kdkit.Objective`.
        teacher_weights: sequence of floats, one per teacher, or `None`.
        has_labels: bool. Whether labels are compared with the student too.
        chunk_size: int or `None`, as in `kdkit.Distiller`.
        dtype: dtype or policy of the projections.

    Raises:
        UsageError: if an objective does not fit the models.
    """

    def __init__(
        self,
        teachers,
        student,
        objectives,
        teacher_weights,
        has_labels,
        chunk_size,
        dtype,
    ):
        _require_names(objectives)
        self.objectives = objectives
        self.chunk_size = chunk_size
        theirs, ours = (
            {one.taps[side] for one in objectives} for side in (0, 1)
        )
        if has_labels:
            ours.add("logits")
        self._teacher_taps = sorted(theirs, key=tap_name)
        student_taps = sorted(ours, key=tap_name)
        self.models, self._run_teachers = (), ()
        self.shapes = tuple(
            one if isinstance(one, ModelShape) else self._described(one)
            for one in teachers
        )
        self.student_shape = describe(student, student_taps)
        self.teacher_weights = _normalized(teacher_weights, len(teachers))
        self.terms = [
            self._term(number, objective, dtype)
            for number in range(len(teachers))
            for objective in objectives
        ]
        self._run_student = self._tapped(student, student_taps)

    def _term(self, number, objective, dtype):
        teacher, student = self.shapes[number], self.student_shape
        pairs = compared_layers(objective, teacher, student)
        projections = {}
        if objective.projection is not None:
            suffix = f"_teacher_{number + 1}" if number else ""
            theirs, ours = _sizes(objective, teacher, student)
            projections = objective.projection.build(
                f"{objective.name}{suffix}",
                ours,
                theirs,
                [layer for layer, _ in pairs],
                dtype,
            )
        share = self.teacher_weights[number]
        return Term(
            objective, number, share, teacher.num_classes, pairs, projections
        )

    def attach(self, models, student) -> None:
        """Sets the teachers' models, which must have the known sizes."""
        _require_own_weights(models, student)
        shapes = tuple(map(self._described, models))
        if shapes != self.shapes:
            raise UsageError(
                "The distiller was created for a teacher of other sizes: "
                f"{self.shapes}, received {shapes}."
            )
        self.models = tuple(models)
        self._run_teachers = [
            self._tapped(model, self._teacher_taps) for model in models
        ]

    def _described(self, teacher):
        return describe(teacher, self._teacher_taps)

    def _tapped(self, model, taps):
        return tapped(model, taps, factor_logits=self.chunk_size is not None)

    def run_student(self, x, training) -> tuple:
        """Returns the student's output, `None` in chunks, and its taps."""
        output, taps = self._run_student.run(x, training)
        return (output if self.chunk_size is None else None), taps

    def run_teachers(self, x) -> list[dict]:
        """Returns each teacher's taps, in inference mode, without gradient.

        Args:
            x: the inputs of the models. If they contain `teacher_outputs`, a
                tuple with one dict by `kdkit.taps.Entry.name` per teacher,
                these tensors are returned and no teacher runs.
        """
        if isinstance(x, dict) and TEACHER_OUTPUTS in x:
            for objective in self.objectives:
                if objective.loss.counts_padding:
                    raise UsageError(
                        f"{objective.name} compares padded positions, which "
                        "the teacher cache does not store."
                    )
            return x[TEACHER_OUTPUTS]
        if not self.models:
            raise UsageError(
                "This distiller has no teacher. Call attach_teacher(model)."
            )
        return keras.tree.map_structure(
            ops.stop_gradient,
            [run(x, training=False) for run in self._run_teachers],
        )

    def sums_in_chunks(self, *compared, labels, scale):
        """Returns the sums of each term, and those of the labels or `None`.

        Args:
            *compared: the arguments of `Term.sums`, with
                `kdkit.taps.FactoredLogits` as `"logits"`.
            labels: `ChunkTerm` for the label loss, or `None`.
            scale: as in `chunked_sums`.
        """
        _, student_taps, *_ = compared
        chunked, sums = [], []
        for term in self.terms:
            if term.objective.tap == "logits":
                chunked.append(term.chunk_term(*compared))
        if labels is not None:
            chunked.append(labels)
        if chunked:
            logits = student_taps["logits"]
            found = chunked_sums(chunked, logits, self.chunk_size, scale)
            sums = [*zip(*found, strict=True)]
        label_sums = None if labels is None else sums.pop()
        for index, term in enumerate(self.terms):
            if term.objective.tap != "logits":
                sums.insert(index, term.sums(*compared))
        return sums, label_sums

    def values(self, tops, bottoms) -> list:
        """Returns each objective's value, the weighted mean over teachers.

        Sums after those of `terms` are of the labels: their value is the last.
        """
        quotients = [*map(safe_divide, tops, bottoms)]
        values = [0] * len(self.objectives)
        for index, term in enumerate(self.terms):
            values[index % len(values)] += term.share * quotients[index]
        return values + quotients[len(self.terms) :]


class TotalLoss(keras.metrics.Mean):
    """The mean of the layers' own losses, plus the weighted other terms.

    Each term is a mean over the elements that count for it: examples, tokens,
    or pairs in attention. The mean of the steps' losses would be another
    number: an example in a batch with few tokens would count more than others,
    and the value would depend on the order of the examples.

    Args:
        trackers: list of `keras.metrics.Mean`, one for each term.
        weights: list of floats, the weights of the terms in the loss.
    """

    def __init__(self, trackers, weights):
        super().__init__(name="loss")
        # The model tracks their variables; a list would be tracked here too.
        self.terms = lambda: zip(weights, trackers, strict=True)

    def update_all(self, values, counts, extra, batch_size) -> None:
        """Updates the means of the terms and the mean of the layers' losses.

        Args:
            values: list of scalars, one per term.
            counts: list of scalars, the weight of each value.
            extra: scalar. The sum of the layers' losses.
            batch_size: int or scalar. The weight of `extra`.
        """
        _, trackers = zip(*self.terms(), strict=True)
        for tracker, value, count in zip(trackers, values, counts, strict=True):
            tracker.update_state(value, sample_weight=count)
        self.update_state(extra, sample_weight=batch_size)

    def result(self):
        """Returns a scalar tensor."""
        return super().result() + sum(
            weight * tracker.result() for weight, tracker in self.terms()
        )


def _require_own_weights(teachers, student):
    """Raises an error if the student trains weights of a teacher."""
    trained = {id(one): one.path for one in student.trainable_variables}
    for model in teachers:
        paths = [
            trained[id(one)] for one in model.variables if id(one) in trained
        ]
        if paths:
            layers = sorted({path.rpartition("/")[0] for path in paths})
            raise UsageError(
                f"The student trains layers of its teacher: {layers}. Build it "
                "on a copy, or freeze them."
            )


def _require_names(objectives):
    """Requires different names: each is a scalar in the logs."""
    names = [*RESERVED_NAMES, *(objective.name for objective in objectives)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"Two values in the logs have the name {name!r}. Pass name=... "
                "to Objective."
            )


def _normalized(weights, num_teachers):
    """Returns weights that sum to 1."""
    weights = [1.0] * num_teachers if weights is None else weights
    for weight in weights:
        require_weight("teacher_weights", weight)
    if len(weights) != num_teachers or not sum(weights):
        raise UsageError(
            "`teacher_weights` has a number for each of "
            f"{num_teachers} teachers, not all 0. Received {weights}."
        )
    return tuple(weight / sum(weights) for weight in weights)
