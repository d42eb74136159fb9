"""Runs student and teachers on a batch and compares their tensors."""

import keras

from kdkit.backends import check_chunk_size
from kdkit.distillation.checks import longest_input
from kdkit.distillation.checks import require_positions
from kdkit.errors import UsageError
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.taps import describe
from kdkit.taps import tapped


class Comparison:
    """The parts of a `Distiller` that Keras must neither track nor save.

    Args:
        terms: `Terms`.
        teachers: `Teachers`.
        student: `keras.Model`.
        chunk_size: int or `None`, as in `kdkit.Distiller`.
        total: `TotalLoss`.
    """

    def __init__(self, terms, teachers, student, chunk_size, total):
        check_chunk_size(chunk_size)
        self.terms = terms
        self.teachers = teachers
        self.chunk_size = chunk_size
        self.total = total
        self._has_head = describe(student).num_classes is not None
        head = ["logits"] if self._has_head else []
        self._student = student
        self._longest = longest_input(student)
        self._longest_of_teachers = []
        self._run_student = tapped(
            student, [*head, *terms.taps], factor_logits=self.is_in_chunks
        )

    @property
    def is_in_chunks(self) -> bool:
        """Whether logits are computed in chunks of positions."""
        return self.chunk_size is not None

    @property
    def has_logits(self) -> bool:
        """Whether the student's logits are available as one tensor."""
        return self._has_head and not self.is_in_chunks

    @property
    def why_no_logits(self) -> str:
        """The reason why they are not, for an error."""
        if self.is_in_chunks:
            return (
                f"chunk_size={self.chunk_size}, so the logits are never "
                "complete"
            )
        return "a backbone"

    def attach(self, teacher) -> None:
        """Sets the teachers' models, as `Teachers.attach` does."""
        self.teachers.attach(teacher, self.terms.taps, self.is_in_chunks)
        self._longest_of_teachers = [*map(longest_input, self.teachers.models)]

    def run_student(self, x, training) -> dict:
        """Returns the student's taps.

        Args:
            x: the inputs of the models.
            training: bool.

        Raises:
            UsageError: if examples are longer than the student can read.
        """
        if self._longest is not None:
            require_positions(self._student, self._longest, "student", x)
        return self._run_student(x, training=training)

    def as_output(self, logits):
        """Returns logits in a dict or list if the student's output is one.

        Args:
            logits: tensor, alone or in such a structure, or `None`.
        """
        # A sequential model has one tensor, and no `output` before a call.
        if logits is None or isinstance(self._student, keras.Sequential):
            return logits
        output = self._student.output
        if not isinstance(output, dict | list | tuple):
            return logits
        return keras.tree.pack_sequence_as(output, keras.tree.flatten(logits))

    def read_teachers(self, x) -> list[dict]:
        """Returns the taps of each teacher, as `Teachers` does.

        Args:
            x: the inputs of the models.

        Raises:
            UsageError: if `x` has cached outputs, but an objective compares
                padded positions, which the cache does not store.
        """
        padded = [
            objective.name
            for objective in self.terms.objectives
            if objective.loss.counts_padding
        ]
        if padded and isinstance(x, dict) and TEACHER_OUTPUTS in x:
            raise UsageError(
                f"{', '.join(padded)} compare padded positions, which the "
                "teacher cache does not store. Expected the teacher itself. "
                "Remove parity, or train without the cache."
            )
        if not (isinstance(x, dict) and TEACHER_OUTPUTS in x):
            for model, longest in zip(
                self.teachers.models, self._longest_of_teachers, strict=True
            ):
                if longest is not None:
                    require_positions(model, longest, "teacher", x)
        return self.teachers(x)
