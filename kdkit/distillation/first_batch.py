"""The first batch of `fit`, which is read before a weight changes."""

import types
import warnings

import keras
import numpy as np
from keras import ops

from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.taps import TEACHER_OUTPUTS, select_inputs, shows_logits

BATCH_SIZE = 32  # Keras' default
_TOLERANCE = 0.02  # how far sums of probabilities in bfloat16 may be from 1
_MIN_VALUES = 32  # fewer values may all be in [0, 1] by chance


class FirstBatch:
    """Checks the first batch of data for `fit`, which are opened once.

    A second iterator would give a shuffled dataset its second order. Arrays,
    generators, `PyDataset`s and `tf.data.Dataset`s are checked. Batches that
    are already shared among devices, and those of PyTorch, are not.

    Args:
        distiller: `kdkit.Distiller`. Its `validate_batch` checks the batch.

    Attributes:
        error: the error, which TensorFlow replaces by its own, or `None`.
    """

    def __init__(self, distiller):
        self._distiller = distiller
        # Keras takes the variables' values on JAX before it reads a batch.
        on_jax = keras.config.backend() == "jax"
        variables = distiller.variables if on_jax else ()
        self._values = [(variable, variable.value) for variable in variables]
        self.error = None

    def look_at(self, given) -> None:
        """Checks a batch of the arguments of `fit`, or lets it be checked."""
        x = given["x"]
        if isinstance(x, types.GeneratorType):
            first = next(x)
            self._validate(first)
            given["x"] = _again(first, x)
        elif isinstance(x, keras.utils.PyDataset):
            self._validate(x[0])
        elif is_dataset(x):
            given["x"] = self._checked_when_read(x)
        elif not any(
            hasattr(x, name) for name in ("element_spec", "collate_fn")
        ):
            data = (x, given.get("y"), given.get("sample_weight"))
            size = given.get("batch_size") or BATCH_SIZE
            self._validate(keras.tree.map_structure(_first_rows(size), data))

    def _validate(self, batch):
        if self._distiller.has_checked_data:
            return
        try:
            with keras.StatelessScope(self._values):
                self._distiller.validate_batch(batch)
        except UsageError as error:
            self.error = error
            raise

    def _checked_when_read(self, dataset):
        """Returns a `tf.data.Dataset` that checks its first batch."""

        def look(number, batch):
            parts = dict(enumerate(tf.nest.flatten(batch)))
            given = {key: one for key, one in parts.items() if one is not None}

            def validate(*tensors):
                found = dict(zip(given, tensors, strict=True))
                flat = [found.get(key) for key in parts]
                self._validate(tf.nest.pack_sequence_as(batch, flat))
                return True

            tf.cond(
                tf.equal(number, 0),
                lambda: tf.py_function(validate, [*given.values()], "bool"),
                lambda: True,
            )
            return batch

        return dataset.enumerate().map(look)


def is_dataset(x) -> bool:
    """Whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return hasattr(x, "element_spec") and hasattr(x, "map")


def _first_rows(size):
    def first_rows(one):
        return one[:size] if hasattr(one, "__getitem__") else None

    return first_rows


def _again(first, rest):
    yield first
    yield from rest


def require_logits(teachers, student, losses, x) -> None:
    """Raises an error if outputs on a batch are probabilities.

    Args:
        teachers: models whose logits are compared.
        student: `keras.Model`.
        losses: the losses on logits.
        x: the inputs of the models, perhaps with cached teacher outputs.

    Raises:
        UsageError: if each of at least two rows sums to 1.
    """
    roles = [("student", student)]
    cached = x.get(TEACHER_OUTPUTS) if isinstance(x, dict) else None
    if cached is None:
        roles += [("teacher", teacher) for teacher in teachers]
    for outputs in cached or ():
        if "logits" in outputs:
            _require_no_probabilities("teacher", outputs["logits"], losses)
    for role, model in roles:
        if not shows_logits(model):
            outputs = model(select_inputs(model, x), training=False)
            (logits,) = keras.tree.flatten(outputs)
            _require_no_probabilities(role, logits, losses)


def _require_no_probabilities(role, logits, losses):
    rows = ops.convert_to_numpy(ops.cast(logits, "float32"))
    rows = rows.reshape(-1, rows.shape[-1])
    if not rows.size or rows.min() < 0 or not rows.max() <= 1:
        return
    sums_to_1 = (np.abs(rows.sum(axis=-1) - 1) <= _TOLERANCE).all()
    if len(rows) > 1 and rows.shape[1] > 1 and sums_to_1:
        raise UsageError(
            f"The outputs of the {role} are probabilities, not logits: each "
            "row of the first batch sums to 1."
        )
    is_binary = any(isinstance(one, SoftBinaryCrossEntropy) for one in losses)
    if is_binary and rows.size >= _MIN_VALUES and rows.min() < rows.max():
        warnings.warn(
            f"The outputs of the {role} may be probabilities, not logits: "
            f"all {rows.size} values in the first batch are between 0 and 1. "
            "If they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )
