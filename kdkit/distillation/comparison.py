"""What a student is compared with: its teachers, and one term for each."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import keras
from keras import ops

from kdkit.distillation.chunks import ChunkTerm, chunked_sums
from kdkit.distillation.layer_maps import layer_map
from kdkit.distillation.objective import Objective, require_weight
from kdkit.distillation.weights import element_weights, position_weights
from kdkit.errors import UsageError
from kdkit.taps import (
    PER_LAYER_TAPS,
    TEACHER_OUTPUTS,
    Entry,
    FactoredLogits,
    ModelShape,
    describe,
    tapped,
)
from kdkit.taps.names import tap_name
from kdkit.taps.shape import require_taps

# Names of the Distiller's other scalars.
RESERVED_NAMES = ("loss", "hard_label_loss")
SAME_NAME = (
    "Two values in the logs have the name {!r}. Pass name=... to Objective."
)


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
    require_taps(objective.taps[:1], teacher)
    require_taps(objective.taps[1:], student)
    pairs = {}
    if objective.kind in PER_LAYER_TAPS:
        pairs = layer_map(
            objective.layer_map,
            teacher.depth(objective.tap),
            student.depth(objective.tap),
        )
    has_embeddings = objective.kind == "hidden_states"
    if not pairs or (has_embeddings and objective.include_embeddings):
        pairs = {0: 0, **pairs}
    theirs, ours = _sizes(objective, teacher, student)
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
    return [*pairs.items()]


def _sizes(objective, teacher, student):
    """The sizes of both taps that must be equal: widths, numbers of heads."""
    theirs, ours = objective.taps
    return teacher.width(theirs), student.width(ours)


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
        theirs
        for objective in objectives
        for _, theirs in _compared_entries(objective, teacher, student)
    }
    return tuple(sorted(entries))


def _compared_entries(objective, teacher, student):
    """Returns pairs of a student's and a teacher's entry."""
    tap = tap_name(objective.taps[1])
    pairs = []
    for ours, theirs in compared_layers(objective, teacher, student):
        entry = teacher_entry(objective, theirs, teacher.num_classes)
        pairs.append((Entry(tap, ours), entry))
    return pairs


class Part(NamedTuple):
    """The place of a term in the loss and in the logs."""

    tracker: keras.metrics.Mean  # of an objective's values for all teachers
    weight: float  # of the term in the loss
    share: float = 1.0  # of the term's teacher in the objective's value


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """An objective between the student and one of its teachers."""

    objective: Objective
    part: Part
    teacher: int  # its number, from 0
    pairs: list  # of a student's and a teacher's `kdkit.taps.Entry`
    projections: dict  # by the student's layer

    def sums(self, teachers_taps, student_taps, x, sample_weight):
        """Returns Σ weight × value, summed over the pairs, and Σ weight."""
        if not self.objective.use_sample_weight:
            sample_weight = None
        total = 0
        for ours, theirs in self.pairs:
            student = ours.read(student_taps)
            weights = element_weights(ours.tap, student, x, sample_weight)
            if ours.layer in self.projections:
                student = self.projections[ours.layer](student)
            sums, teacher = self._compared(theirs, teachers_taps)
            # Every pair has the same shapes and so the same denominator.
            top, bottom = sums(teacher, student, weights)
            total += top
        if self.objective.pair_reduction == "mean":
            total /= len(self.pairs)
        return total, bottom

    def chunk_term(self, teachers_taps, student_taps, x, sample_weight):
        """Returns an objective on logits as a term of `chunked_sums`."""
        if not self.objective.use_sample_weight:
            sample_weight = None
        ((_, entry),) = self.pairs
        sums, teacher = self._compared(entry, teachers_taps)
        embeddings = None
        if isinstance(teacher, FactoredLogits):
            teacher, embeddings = teacher
        states = student_taps["logits"].states
        weights = element_weights("logits", states, x, sample_weight)
        weights = position_weights(states, weights)
        return ChunkTerm(
            sums=sums,
            target=teacher,
            embeddings=embeddings,
            weights=weights,
            total_weight=ops.sum(weights),
            factor=self.part.weight,
        )

    def _compared(self, entry, teachers_taps):
        """Returns the loss's sums function and its teacher tensor."""
        taps = teachers_taps[self.teacher]
        loss = self.objective.loss
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
        hard_label_weight: float. With 0 the labels have no term.
        chunk_size: int or `None`, as in `kdkit.Distiller`.
        dtype: dtype or policy of the projections.

    Attributes:
        terms: list of `Term`, one for each objective and teacher.
        parts: list of `Part`, those of the terms and that of the labels.

    Raises:
        UsageError: if an objective does not fit the models.
    """

    def __init__(
        self,
        teachers,
        student,
        objectives,
        teacher_weights,
        hard_label_weight,
        chunk_size,
        dtype,
    ):
        _require_names(objectives)
        self.objectives = objectives
        self.chunk_size = chunk_size
        self.teacher_weights = _normalized(teacher_weights, len(teachers))
        self.models = ()
        self._run_teachers = ()
        self._teacher_taps = [one.taps[0] for one in objectives]
        student_taps = [one.taps[1] for one in objectives]
        if hard_label_weight:
            student_taps.append("logits")
        self.student_shape = describe(student, student_taps)
        self.shapes = tuple(map(self._described, teachers))
        trackers = [keras.metrics.Mean(name=one.name) for one in objectives]
        self.terms = []
        for number, share in enumerate(self.teacher_weights):
            for objective, tracker in zip(objectives, trackers, strict=True):
                part = Part(tracker, objective.weight * share, share)
                self.terms.append(self._term(objective, part, number, dtype))
        self.parts = [term.part for term in self.terms]
        if hard_label_weight:
            tracker = keras.metrics.Mean(name="hard_label_loss")
            self.parts.append(Part(tracker, hard_label_weight))
        self._run_student = self._tapped(student, student_taps)

    def _term(self, objective, part, number, dtype):
        teacher = self.shapes[number]
        student = self.student_shape
        pairs = _compared_entries(objective, teacher, student)
        projections = {}
        if objective.projection is not None:
            suffix = f"_teacher_{number + 1}" if number else ""
            theirs, ours = _sizes(objective, teacher, student)
            projections = objective.projection.build(
                f"{objective.name}{suffix}",
                ours,
                theirs,
                [entry.layer for entry, _ in pairs],
                dtype,
            )
        return Term(objective, part, number, pairs, projections)

    def attach(self, models, student):
        """Sets the teachers' models, which must have the known sizes."""
        require_own_weights(models, student)
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

    def require_other_names(self, metrics):
        """Requires that no compiled metric is logged as one of the terms."""
        terms = {part.tracker.name for part in self.parts}
        for one in keras.tree.flatten(metrics):
            name = getattr(one, "name", getattr(one, "__name__", one))
            if name in terms:
                raise UsageError(SAME_NAME.format(name))

    def _described(self, teacher):
        if isinstance(teacher, ModelShape):
            return teacher
        return describe(teacher, self._teacher_taps)

    def _tapped(self, model, taps):
        return tapped(model, taps, factor_logits=self.chunk_size is not None)

    def run_student(self, x, training):
        """Returns the student's output, `None` in chunks, and its taps."""
        output, taps = self._run_student.run(x, training)
        if self.chunk_size is not None:
            output = None
        return output, taps

    def run_teachers(self, x):
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
        """Returns the sums of each term, and those of the labels.

        Args:
            *compared: the arguments of `Term.sums`, with
                `kdkit.taps.FactoredLogits` as `"logits"`.
            labels: list of a `ChunkTerm` for the label loss, or empty.
            scale: as in `chunked_sums`.
        """
        _, student_taps, *_ = compared
        logits = student_taps.get("logits")
        on_logits = [one.objective.tap == "logits" for one in self.terms]
        terms = itertools.compress(self.terms, on_logits)
        chunked = [*(term.chunk_term(*compared) for term in terms), *labels]
        found = iter(chunked_sums(chunked, logits, self.chunk_size, scale))
        sums = [
            next(found) if is_chunked else term.sums(*compared)
            for term, is_chunked in zip(self.terms, on_logits, strict=True)
        ]
        return [*sums, *found]


def require_own_weights(teachers, student):
    """Raises an error if the student trains weights of a teacher."""
    trained = set(map(id, student.trainable_variables))
    for model in teachers:
        shared = [one for one in model.variables if id(one) in trained]
        if shared:
            layers = {one.path.rpartition("/")[0] for one in shared}
            raise UsageError(
                f"The student trains layers of its teacher: {sorted(layers)}. "
                "Build it on a copy, or freeze them."
            )


def _require_names(objectives):
    """Requires different names: each is a scalar in the logs."""
    names = [objective.name for objective in objectives]
    names += RESERVED_NAMES
    for name in names:
        if names.count(name) > 1:
            raise UsageError(SAME_NAME.format(name))


def _normalized(weights, num_teachers):
    """Returns weights that sum to 1."""
    if weights is None:
        weights = [1.0] * num_teachers
    for weight in weights:
        require_weight("teacher_weights", weight)
    if len(weights) != num_teachers or not sum(weights):
        raise UsageError(
            "`teacher_weights` has a number for each of "
            f"{num_teachers} teachers, not all 0. Received {weights}."
        )
    return tuple(weight / sum(weights) for weight in weights)
