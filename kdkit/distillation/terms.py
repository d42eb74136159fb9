"""All objectives for one student and one or more teachers."""

import math

import keras
from keras import ops

from kdkit.distillation.binding import bind
from kdkit.distillation.chunks import chunked_sums
from kdkit.errors import UsageError
from kdkit.taps import (
    TEACHER_OUTPUTS,
    Entry,
    ModelShape,
    describe,
    tap_name,
    tapped,
)


class Terms:
    """Objectives bound to a student and each of its teachers.

    With several teachers, an objective is the weighted mean of its values for
    each teacher. For soft labels this equals the value for the weighted mean
    of the teachers' distributions.

    Args:
        objectives: tuple of `kdkit.Objective`.
        hard_label_weight: float. Weight of the loss on the labels.
        teachers: tuple of `kdkit.taps.ModelShape`.
        teacher_weights: sequence of floats, one per teacher, or `None` for
            equal weights. Only their ratio matters.
        student: `kdkit.taps.ModelShape`.
        dtype: dtype or policy of the projections.

    Raises:
        UsageError: if an objective does not fit the models.
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
        self._bound = []
        for number, teacher in enumerate(teachers, start=1):
            suffix = f"_teacher_{number}" if number > 1 else ""
            self._bound += bind(
                objectives, hard_label_weight, teacher, student, dtype, suffix
            )
        self.teacher_taps, self.student_taps = both_taps(objectives)

    @property
    def projections(self) -> list:
        """The trainable projections, each once."""
        return list(
            {
                layer.name: layer
                for term in self._bound
                for layer in term.projections.values()
            }.values()
        )

    @property
    def teacher_entries(self) -> list[tuple[Entry, ...]]:
        """The entries that are read from each teacher's taps."""
        per_teacher = len(self.objectives)
        entries = [set() for _ in self.teacher_weights]
        for index, term in enumerate(self._bound):
            entries[index // per_teacher] |= term.teacher_entries
        return [tuple(sorted(one)) for one in entries]

    def sums(self, teachers_taps, student_taps, x, sample_weight):
        """Returns the numerators and the denominators of all terms.

        Both can be added over replicas and batches; `values` takes their
        quotients.

        Args:
            teachers_taps: list of dicts of tensors by tap name, one per
                teacher.
            student_taps: dict of the student's tensors by tap name.
            x: the inputs of the models.
            sample_weight: `None` or tensor, as for `Objective`.
        """
        numerators, denominators = [], []
        for term, teacher_taps in self._terms_with_taps(teachers_taps):
            top, bottom = term.sums(
                teacher_taps, student_taps, x, sample_weight
            )
            numerators.append(top)
            denominators.append(bottom)
        return numerators, denominators

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
        """Returns the same sums as `sums`, with logits computed in chunks.

        Args:
            teachers_taps, student_taps, x, sample_weight: as in `sums`, with
                `kdkit.taps.FactoredLogits` as `"logits"`.
            labels: `ChunkTerm` for the label loss, or `None`.
            chunk_size, scale: as in `chunked_sums`.

        Returns:
            The result of `sums`, and a tuple of the two sums of the label
            loss, or `None`.
        """
        on_logits, sums = [], {}
        for index, (term, teacher_taps) in enumerate(
            self._terms_with_taps(teachers_taps)
        ):
            if term.objective.tap == "logits":
                made = term.chunk_term(
                    teacher_taps,
                    student_taps,
                    x,
                    sample_weight,
                    self.teacher_weights[index // len(self.objectives)],
                )
                on_logits.append((index, made))
            else:
                sums[index] = term.sums(
                    teacher_taps, student_taps, x, sample_weight
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

    def _terms_with_taps(self, teachers_taps):
        """Returns each term with the taps of its teacher."""
        per_teacher = len(self.objectives)
        return [
            (term, teachers_taps[index // per_teacher])
            for index, term in enumerate(self._bound)
        ]

    def values(self, quotients) -> list:
        """Returns each objective's value, the mean over the teachers."""
        per_teacher = len(self.objectives)
        return [
            sum(
                weight * quotients[number * per_teacher + index]
                for number, weight in enumerate(self.teacher_weights)
            )
            for index in range(per_teacher)
        ]


def both_taps(objectives) -> tuple[list, list]:
    """Returns the taps of the teacher and those of the student, each once."""
    return tuple(
        sorted({one.taps[side] for one in objectives}, key=tap_name)
        for side in (0, 1)
    )


def _normalized(weights, num_teachers):
    """Returns weights that sum to 1."""
    if weights is None:
        return (1.0 / num_teachers,) * num_teachers
    weights = tuple(float(weight) for weight in weights)
    if (
        len(weights) != num_teachers
        or not all(math.isfinite(w) and w >= 0 for w in weights)
        or not sum(weights)
    ):
        raise UsageError(
            "`teacher_weights` must be at least 0, one for each of "
            f"{num_teachers} teachers and not all 0, received {weights}."
        )
    return tuple(weight / sum(weights) for weight in weights)


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
        self._terms = lambda: zip(trackers, weights, strict=True)

    def update_all(self, values, counts, extra, batch_size) -> None:
        """Updates the means of the terms and the mean of the layers' losses.

        Args:
            values: list of scalars, one per term; further ones are ignored.
            counts: list of scalars, the weight of each value.
            extra: scalar. The sum of the layers' losses.
            batch_size: int or scalar. The weight of `extra`.
        """
        for (tracker, _), value, count in zip(
            self._terms(), values, counts, strict=False
        ):
            tracker.update_state(value, sample_weight=count)
        self.update_state(extra, sample_weight=batch_size)

    def result(self):
        """Returns a scalar tensor."""
        return super().result() + sum(
            weight * tracker.result() for tracker, weight in self._terms()
        )


class Teachers:
    """One or more teachers, which may be attached later.

    Args:
        teacher: `keras.Model`, `kdkit.taps.ModelShape`, or a list of either.
        taps: list of taps to read, as in `kdkit.taps.tapped`.

    """

    def __init__(self, teacher, taps):
        given = _as_tuple(teacher)
        self.models = () if isinstance(given[0], ModelShape) else given
        self._taps = taps
        self.shapes = tuple(map(self._describe, self.models)) or given
        self._run = []

    def _describe(self, model):
        return describe(model, self._taps, needs_logits="logits" in self._taps)

    def attach(self, teacher, factor_logits=False) -> None:
        """Sets the models, which must have the known sizes.

        Args:
            teacher: `keras.Model`, or a list with one model per size.
            factor_logits: bool, as in `kdkit.taps.tapped`.

        Raises:
            UsageError: if the sizes differ.
        """
        models = _as_tuple(teacher)
        shapes = tuple(map(self._describe, models))
        if shapes != self.shapes:
            raise UsageError(
                "The distiller was created for a teacher of other sizes: "
                f"{_one_or_all(self.shapes)}, received {_one_or_all(shapes)}."
            )
        self.models = models
        self._run = [
            tapped(model, self._taps, factor_logits) for model in models
        ]

    def __call__(self, x) -> list[dict]:
        """Returns each teacher's taps, in inference mode, without gradient.

        Args:
            x: the inputs of the models. If they contain `teacher_outputs`, a
                tuple with one dict by `kdkit.taps.Entry.name` per teacher,
                these tensors are returned and no teacher runs.
        """
        if isinstance(x, dict) and TEACHER_OUTPUTS in x:
            return [
                _entries_to_taps(outputs, shape)
                for outputs, shape in zip(
                    x[TEACHER_OUTPUTS], self.shapes, strict=True
                )
            ]
        if not self._run:
            raise UsageError(
                "This distiller has no teacher. Call attach_teacher(model)."
            )
        return keras.tree.map_structure(
            ops.stop_gradient, [run(x, training=False) for run in self._run]
        )

    @property
    def one_or_all(self):
        """The model, a tuple of models, or `None` before `attach`."""
        return _one_or_all(self.models) or None


def _entries_to_taps(outputs, shape):
    """Converts a dict of tensors by entry name to taps."""
    taps = {}
    for name, tensor in outputs.items():
        entry = Entry.of(name)
        entry.write(taps, tensor, shape.depth(entry.tap))
    return taps


def _as_tuple(teacher):
    return tuple(teacher) if isinstance(teacher, list | tuple) else (teacher,)


def _one_or_all(entries):
    """Returns the entry of a tuple with one entry, or the tuple."""
    return entries[0] if len(entries) == 1 else entries
