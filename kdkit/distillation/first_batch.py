"""The first batch of `fit`, which is read before a weight changes."""

import itertools
import types
import warnings

import keras
import numpy as np
from keras import ops

from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.taps import TEACHER_OUTPUTS, select_inputs
from kdkit.taps.shape import shows_logits

BATCH_SIZE = 32  # Keras' default
_TOLERANCE = 0.02  # how far sums of probabilities in bfloat16 may be from 1
_MIN_VALUES = 32  # fewer values may all be in [0, 1] by chance


class FirstBatch:
    """Checks the first batch of data in a `with` block around `fit`.

    The data are opened once, because a second iterator would give a shuffled
    dataset its second order. Arrays, generators, `PyDataset`s and
    `tf.data.Dataset`s are checked. Batches that are already shared among
    devices, and those of PyTorch, are not.

    Args:
        distiller: `kdkit.Distiller`. Its `validate_batch` checks the batch.
        given: dict of the arguments of `fit`. `"x"` may be replaced.
    """

    def __init__(self, distiller, given):
        self._distiller = distiller
        self._given = given
        self._error = None
        # Keras takes the variables' values on JAX before it reads a batch.
        on_jax = keras.config.backend() == "jax"
        variables = distiller.variables if on_jax else ()
        self._values = [(variable, variable.value) for variable in variables]

    def __enter__(self):
        given = self._given
        x = given["x"]
        if self._distiller.has_checked_data:
            return
        if isinstance(x, types.GeneratorType):
            first = next(x)
            self._validate(first)
            given["x"] = (batch for batch in itertools.chain([first], x))
        elif isinstance(x, keras.utils.PyDataset):
            self._validate(x[0])
        elif is_dataset(x):
            given["x"] = x.enumerate().map(self._validate_in_graph)
        elif not hasattr(x, "element_spec") and not hasattr(x, "collate_fn"):
            size = given.get("batch_size") or BATCH_SIZE
            arrays = x, given.get("y")
            self._validate(
                keras.tree.map_structure(
                    lambda one: None if one is None else one[:size], arrays
                )
            )

    def __exit__(self, *raised):
        error = self._error
        vars(self).clear()  # TensorFlow never frees a dataset's functions
        if error is not None:  # which TensorFlow replaced by its own
            raise error from None

    def _validate(self, batch):
        if self._distiller.has_checked_data:
            return
        try:
            with keras.StatelessScope(self._values):
                self._distiller.validate_batch(batch)
        except UsageError as error:
            self._error = error
            raise

    def _validate_in_graph(self, number, batch):
        """Returns a batch of a dataset, after a look at the first one."""
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        parts = (x,) if y is None else (x, y)

        def validate(*tensors):
            self._validate(tf.nest.pack_sequence_as(parts, tensors))
            return True

        tf.cond(
            tf.equal(number, 0),
            lambda: tf.py_function(validate, tf.nest.flatten(parts), "bool"),
            lambda: True,
        )
        return batch


def is_dataset(x) -> bool:
    """Whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return hasattr(x, "element_spec") and hasattr(x, "map")


def require_logits(teachers, student, losses, x):
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
    if isinstance(x, dict) and TEACHER_OUTPUTS in x:
        for outputs in x[TEACHER_OUTPUTS]:
            if "logits" in outputs:
                _require_no_probabilities("teacher", outputs["logits"], losses)
    else:
        roles += [("teacher", model) for model in teachers]
    for role, model in roles:
        if not shows_logits(model):
            inputs = select_inputs(model, x)
            outputs = model(inputs, training=False)
            (logits,) = keras.tree.flatten(outputs)
            _require_no_probabilities(role, logits, losses)


def _require_no_probabilities(role, logits, losses):
    width = logits.shape[-1]
    rows = ops.convert_to_numpy(ops.cast(logits, "float32"))
    rows = rows.reshape(-1, width)
    if not rows.size:
        return
    least, most = rows.min(), rows.max()
    if least < 0 or not most <= 1:  # or NaN
        return
    sums = rows.sum(axis=-1)
    sums_to_1 = np.allclose(sums, 1, atol=_TOLERANCE)
    if len(rows) > 1 and width > 1 and sums_to_1:
        raise UsageError(
            f"The outputs of the {role} are probabilities, not logits: each "
            "row of the first batch sums to 1."
        )
    is_binary = any(isinstance(one, SoftBinaryCrossEntropy) for one in losses)
    if is_binary and rows.size >= _MIN_VALUES and least < most:
        warnings.warn(
            f"The outputs of the {role} may be probabilities, not logits: "
            f"all {rows.size} values in the first batch are between 0 and 1. "
            "If they come from a sigmoid, build the model without it.",
            stacklevel=2,
        )
