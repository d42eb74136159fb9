"""The teachers of a distillation: their sizes, and the models once attached."""

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.taps import Entry
from kdkit.taps import ModelShape
from kdkit.taps import describe
from kdkit.taps import tapped


class Teachers:
    """One teacher or several, known by their sizes before they are there.

    Args:
        teacher: `keras.Model`, `kdkit.taps.ModelShape`, or a list of either.

    Raises:
        UsageError: for an empty list, or models and sizes in one.
    """

    def __init__(self, teacher):
        given = _as_tuple(teacher)
        are_shapes = {isinstance(entry, ModelShape) for entry in given}
        if len(are_shapes) != 1:
            raise UsageError(
                "Invalid value for argument `teacher`. Expected a model or a "
                "list of models, or likewise their sizes. Received: "
                f"{[type(entry).__name__ for entry in given]}."
            )
        self.models = () if are_shapes == {True} else given
        self.shapes = tuple(map(describe, self.models)) or given
        self._run = []

    def attach(self, teacher, taps, factor_logits=False) -> None:
        """Sets the models, of the sizes that are known.

        Args:
            teacher: `keras.Model`, or a list of as many as there are sizes.
            taps: iterable of strings. What is read from them.
            factor_logits: bool, as in `kdkit.taps.tapped`.

        Raises:
            UsageError: if the sizes differ.
        """
        models = _as_tuple(teacher)
        shapes = tuple(map(describe, models))
        if shapes != self.shapes:
            raise UsageError(
                "This teacher is not of the size the distiller was made for. "
                f"Expected {_one_or_all(self.shapes)}. Received: "
                f"{_one_or_all(shapes)}."
            )
        self.models = models
        self._run = [tapped(model, taps, factor_logits) for model in models]

    def __call__(self, x) -> list[dict]:
        """Returns the taps of each teacher, in inference, without gradient.

        Args:
            x: the inputs of the models. Where there is `teacher_outputs` in
                it, a tuple of a dict by `kdkit.taps.Entry.name` for each
                teacher, these are the taps and no teacher is run.
        """
        if isinstance(x, dict) and TEACHER_OUTPUTS in x:
            return [
                _taps_of(outputs, shape)
                for outputs, shape in zip(
                    x[TEACHER_OUTPUTS], self.shapes, strict=True
                )
            ]
        if not self._run:
            raise UsageError(
                "This distiller has no teacher, since saved files do not hold "
                "it. Call distiller.attach_teacher(model) first."
            )
        return keras.tree.map_structure(
            ops.stop_gradient, [run(x, training=False) for run in self._run]
        )

    @property
    def one_or_all(self):
        """The model, a tuple of several, or `None` before there is one."""
        return _one_or_all(self.models) or None


def _taps_of(outputs, shape):
    """Tensors by the names of their entries, as taps."""
    taps = {}
    for name, tensor in outputs.items():
        entry = Entry.of(name)
        entry.write(taps, tensor, shape.depth(entry.tap))
    return taps


def _as_tuple(teacher):
    return tuple(teacher) if isinstance(teacher, list | tuple) else (teacher,)


def _one_or_all(entries):
    """A tuple of one for people: its entry."""
    return entries[0] if len(entries) == 1 else entries
