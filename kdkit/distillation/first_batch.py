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
# How far sums of probabilities may be from 1, by precision.
_TOLERANCES = {"float16": 0.01, "bfloat16": 0.02}
_TOLERANCE = 0.001
_MIN_VALUES = 32  # fewer values may all be in [0, 1] by chance


class FirstBatch:
    """Checks the first batch of data for `fit`, which are opened once.

    A second iterator would give a shuffled dataset its second order. Batches
    that are already shared among devices, and those of an iterable dataset of
    PyTorch, are not checked.

    Args:
        validate: function of a batch, which raises a `UsageError`.

    Attributes:
        error: the error, which TensorFlow replaces by its own, or `None`.
    """

    def __init__(self, validate):
        self._validate = validate
        self.error = None

    def of(self, x, y=None, sample_weight=None, batch_size=None):
        """Checks a batch now or when it is read; returns data to train on."""
        if hasattr(x, "element_spec"):
            return self._when_read(x) if hasattr(x, "map") else x
        if isinstance(x, types.GeneratorType):
            first = next(x)
            self._validate(first)
            return _again(first, x)
        if isinstance(x, keras.utils.PyDataset):
            self._validate(x[0])
        elif hasattr(x, "collate_fn"):  # of PyTorch
            if hasattr(x.dataset, "__getitem__"):
                rows = range(min(x.batch_size, len(x.dataset)))
                self._validate(x.collate_fn([x.dataset[row] for row in rows]))
        else:
            rows = slice(batch_size or BATCH_SIZE)
            self._validate(
                keras.tree.map_structure(
                    lambda one: (
                        one[rows] if hasattr(one, "__getitem__") else None
                    ),
                    (x, y, sample_weight),
                )
            )
        return x

    def _when_read(self, dataset):
        """Returns a `tf.data.Dataset` that checks its first batch."""

        def look(number, batch):
            parts = tf.nest.flatten(batch)
            given = [one for one in parts if one is not None]

            def validate(*given):
                given = iter(given)
                found = [None if one is None else next(given) for one in parts]
                try:
                    self._validate(tf.nest.pack_sequence_as(batch, found))
                except UsageError as error:
                    self.error = error
                    raise
                return True

            tf.cond(
                tf.equal(number, 0),
                lambda: tf.py_function(validate, given, "bool"),
                lambda: True,
            )
            return batch

        return dataset.enumerate().map(look)


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
    found = []
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        teachers = ()
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                found.append(("teacher", outputs["logits"]))
    roles = [*(("teacher", one) for one in teachers), ("student", student)]
    for role, model in roles:
        if not shows_logits(model):
            outputs = model(select_inputs(model, x), training=False)
            found.append((role, *keras.tree.flatten(outputs)))
    is_binary = any(isinstance(one, SoftBinaryCrossEntropy) for one in losses)
    for role, logits in found:
        dtype = keras.backend.standardize_dtype(logits.dtype)
        rows = ops.convert_to_numpy(ops.cast(logits, "float32"))
        rows = rows.reshape(-1, rows.shape[-1])
        if not rows.size or rows.min() < 0 or not rows.max() <= 1:
            continue
        tolerance = _TOLERANCES.get(dtype, _TOLERANCE)
        sums_to_1 = (np.abs(rows.sum(axis=-1) - 1) <= tolerance).all()
        if len(rows) > 1 and rows.shape[1] > 1 and sums_to_1:
            raise UsageError(
                f"The outputs of the {role} are probabilities, not logits: "
                "each row of the first batch sums to 1."
            )
        if is_binary and rows.size >= _MIN_VALUES and rows.min() < rows.max():
            warnings.warn(
                f"The outputs of the {role} may be probabilities, not logits: "
                f"all {rows.size} values in the first batch are between 0 and "
                "1. If they come from a sigmoid, build the model without it.",
                stacklevel=2,
            )
