"""All objectives of a loss, for one student and one or more teachers."""

import math

from kdkit.errors import UsageError
from kdkit.objectives.binding import bind
from kdkit.objectives.chunks import chunked_sums
from kdkit.objectives.weights import objective_masks
from kdkit.objectives.weights import objective_weights
from kdkit.taps import Entry


class Terms:
    """Objectives bound to a student and each of its teachers.

    With several teachers an objective is the weighted mean of its values
    against each of them. For soft labels that is the value against the
    weighted mean of their distributions.

    Args:
        objectives: tuple of `kdkit.Objective`.
        hard_label_weight: float. Weight of the loss on the labels.
        teachers: tuple of `kdkit.taps.ModelShape`.
        teacher_weights: sequence of floats, one per teacher, or `None` for
            equal ones. What counts is their ratio.
        student: `kdkit.taps.ModelShape`.
        dtype: dtype or policy of the projections.

    Raises:
        UsageError: with everything that does not fit.
    """

    def __init__(
        self,
        objectives,
        hard_label_weight,
        teachers,
        teacher_weights,
        student,
        dtype=None,
    ):
        self.objectives = objectives
        self.teacher_weights = _normalized(teacher_weights, len(teachers))
        problems = []
        self._bound = []
        for number, teacher in enumerate(teachers, start=1):
            suffix = f"_teacher_{number}" if number > 1 else ""
            try:
                self._bound += bind(
                    objectives,
                    hard_label_weight,
                    teacher,
                    student,
                    dtype,
                    suffix,
                )
            except UsageError as error:
                problems.append(
                    f"Teacher {number}: {error}"
                    if len(teachers) > 1
                    else str(error)
                )
        if problems:
            raise UsageError("\n".join(problems))
        self.taps = sorted({objective.tap for objective in objectives})

    @property
    def projections(self) -> list:
        """The learnable projections, each once."""
        return list(
            {
                layer.name: layer
                for term in self._bound
                for layer in term.projections.values()
            }.values()
        )

    @property
    def teacher_entries(self) -> list[tuple[Entry, ...]]:
        """What is read of each teacher's taps."""
        per_teacher = len(self.objectives)
        entries = [set() for _ in self.teacher_weights]
        for index, term in enumerate(self._bound):
            entries[index // per_teacher] |= term.teacher_entries
        return [tuple(sorted(one)) for one in entries]

    def sums(self, teachers_taps, student_taps, x, sample_weight):
        """Returns the numerators and the denominators of all terms.

        Both add up over replicas and batches; `values` takes their quotients.

        Args:
            teachers_taps: list of dicts of tensors by tap name, one a teacher.
            student_taps: dict of the student's tensors by tap name.
            x: the inputs of the models.
            sample_weight: `None` or tensor, as `Objective` takes it.
        """
        sums = [
            _sums(term, teacher_taps, student_taps, x, sample_weight)
            for term, teacher_taps in self._of_teachers(teachers_taps)
        ]
        return [top for top, _ in sums], [bottom for _, bottom in sums]

    def sums_in_chunks(
        self,
        teachers_taps,
        student_taps,
        x,
        sample_weight,
        labels,
        chunk_size,
        scale,
    ):
        """As `sums`, for logits that are taken some positions at a time.

        Args:
            teachers_taps, student_taps, x, sample_weight: as in `sums`, with
                `kdkit.taps.FactoredLogits` as `"logits"`.
            labels: `ChunkTerm` of the loss on the labels, or `None`.
            chunk_size, scale: as in `chunked_sums`.

        Returns:
            As `sums`, and a tuple of the two sums of the labels or `None`.
        """
        on_logits, sums = [], {}
        padding_mask, _ = objective_masks("logits", x)
        for index, (term, teacher_taps) in enumerate(
            self._of_teachers(teachers_taps)
        ):
            if term.objective.tap == "logits":
                made = term.chunk_term(
                    teacher_taps,
                    student_taps,
                    padding_mask,
                    objective_weights("logits", x, sample_weight),
                    self.teacher_weights[index // len(self.objectives)],
                )
                on_logits.append((index, made))
            else:
                sums[index] = _sums(
                    term, teacher_taps, student_taps, x, sample_weight
                )
        terms = [made for _, made in on_logits]
        if labels is not None:
            terms.append(labels)
        found = ()
        if terms:
            found = list(
                zip(
                    *chunked_sums(
                        terms, student_taps["logits"], chunk_size, scale
                    ),
                    strict=True,
                )
            )
        for (index, _), both in zip(on_logits, found, strict=False):
            sums[index] = both
        ordered = [sums[index] for index in range(len(self._bound))]
        return (
            [top for top, _ in ordered],
            [bottom for _, bottom in ordered],
            found[-1] if labels is not None else None,
        )

    def _of_teachers(self, teachers_taps):
        """Each term with the taps of its teacher."""
        per_teacher = len(self.objectives)
        return [
            (term, teachers_taps[index // per_teacher])
            for index, term in enumerate(self._bound)
        ]

    def values(self, quotients) -> list:
        """Returns each objective's value: the mean over the teachers."""
        per_teacher = len(self.objectives)
        return [
            sum(
                weight * quotients[number * per_teacher + index]
                for number, weight in enumerate(self.teacher_weights)
            )
            for index in range(per_teacher)
        ]


def _sums(term, teacher_taps, student_taps, x, sample_weight):
    """The sums of one term, with the masks of its tap."""
    tap = term.objective.tap
    padding_mask, key_padding_mask = objective_masks(tap, x)
    return term.sums(
        teacher_taps,
        student_taps,
        padding_mask,
        objective_weights(tap, x, sample_weight),
        key_padding_mask,
    )


def _normalized(weights, num_teachers):
    """Weights that sum to 1.

    Raises:
        UsageError: unless there is one finite weight of at least 0 a teacher,
            and one above 0 among them.
    """
    if weights is None:
        return (1.0 / num_teachers,) * num_teachers
    weights = tuple(float(weight) for weight in weights)
    if (
        len(weights) != num_teachers
        or not all(math.isfinite(w) and w >= 0 for w in weights)
        or not sum(weights)
    ):
        raise UsageError(
            "Invalid value for argument `teacher_weights`. Expected one number "
            f"of at least 0 for each of {num_teachers} teachers, not all 0. "
            f"Received: {weights}."
        )
    return tuple(weight / sum(weights) for weight in weights)
