"""Texts as the inputs of a `Distiller`, encoded by its student's preprocessor.

keras-hub's task models preprocess every input. A distiller preprocesses texts
only, so that encoded batches are not tokenized again.
"""

import dataclasses
import functools
import inspect
import math
import warnings
from collections.abc import Mapping

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.distillation.separate_teachers import SeparateTeacher
from kdkit.distillation.text_batches import shorten, text_batches
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.models.tokenizer_kinds import require_same_ids

ROWS_AT_ONCE = 1024  # texts that the preprocessor encodes in one call
BATCH_SIZE = 32  # Keras' default
PARTS = ("x", "y", "sample_weight")
FEW = 9  # entries of a column that show whether it is one of texts
# Entries of a preprocessor's config that do not change its results.
_NAMES = ("name", "dtype", "trainable", "tokenizer")


@dataclasses.dataclass(frozen=True, eq=False)
class _Compared:
    """The tokenizers that were compared. Keras would track them in a list."""

    tokenizers: tuple = ()


def _like(method):
    """Gives a method the signature of the method of `keras.Model`."""
    return functools.wraps(method, assigned=())


class Texts:
    """The methods of a `Distiller` that take texts as well as arrays."""

    _compared = _Compared()

    @_like(keras.Model.fit)
    def fit(self, *args, **kwargs):
        """Trains the student, as `keras.Model.fit` does."""
        return self._call_encoded(super().fit, args, kwargs)

    @_like(keras.Model.evaluate)
    def evaluate(self, *args, **kwargs):
        """Returns the losses and metrics, as `keras.Model.evaluate` does."""
        return self._call_encoded(super().evaluate, args, kwargs)

    @_like(keras.Model.predict)
    def predict(self, *args, **kwargs):
        """Returns the student's logits, as `keras.Model.predict` does."""
        return self._call_encoded(super().predict, args, kwargs)

    @_like(keras.Model.train_on_batch)
    def train_on_batch(self, *args, **kwargs):
        """Does the same as `keras.Model.train_on_batch`, on texts too."""
        return self._call_encoded(super().train_on_batch, args, kwargs)

    @_like(keras.Model.test_on_batch)
    def test_on_batch(self, *args, **kwargs):
        """Does the same as `keras.Model.test_on_batch`, on texts too."""
        return self._call_encoded(super().test_on_batch, args, kwargs)

    @_like(keras.Model.predict_on_batch)
    def predict_on_batch(self, *args, **kwargs):
        """Does the same as `keras.Model.predict_on_batch`, on texts too."""
        return self._call_encoded(super().predict_on_batch, args, kwargs)

    def _must_encode(self, x):
        """Whether inputs are texts, and the student does not read strings."""
        return holds_texts(x) and not _reads_strings(self.student)

    def _call_encoded(self, method, args, kwargs):
        """Calls a method of Keras with encoded batches in place of texts."""
        bound = inspect.signature(method).bind(*args, **kwargs)
        given, names = bound.arguments, bound.signature.parameters
        validation = given.get("validation_data")
        size = given.get("batch_size") or BATCH_SIZE
        held_out_size = given.get("validation_batch_size") or size
        if self._must_encode(given.get("x")):
            data = [given.pop(name, None) for name in PARTS]
            # Logits per position have one length in `predict`.
            shortens = "y" in names or not self._has_positions
            data = self._encode(*data, shortens)
            if shortens and not _is_dataset(data[0]):
                data = shorten(data, self._has_positions)
                if "batch_size" in names:
                    given.pop("batch_size", None)
                    shuffle = "shuffle" in names and given.get("shuffle", True)
                    count = len(keras.tree.flatten(data[0])[0])
                    share = given.pop("validation_split", 0.0)
                    if share and validation is None:
                        count = math.floor(count * (1.0 - share))
                        given["validation_data"] = self._batches(
                            data, held_out_size, slice(count, None)
                        )
                    x = self._batches(data, size, slice(count), shuffle)
                    data = x, None, None
                    if shuffle:  # is done
                        given["shuffle"] = False
            given |= {
                name: part
                for name, part in zip(PARTS, data, strict=True)
                if part is not None and name in names
            }
        if self._must_encode(validation):
            given["validation_data"] = self._encode_validation(
                validation, held_out_size
            )
        result = method(*bound.args, **bound.kwargs)
        if "y" in names and not all(
            getattr(metric, "built", True) for metric in super().metrics
        ):
            warnings.warn(
                "The compiled metrics have no values, because the data has no "
                "labels. Pass labels, or compile without metrics.",
                stacklevel=3,
            )
        return result

    def _encode_validation(self, data, batch_size):
        if _is_dataset(data):
            return self._encode(data, None, None)[0]
        # Keras reads a list as a tuple. One of texts is a column.
        given = data if isinstance(data, tuple) else (data,)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(given)
        if not holds_texts(x):  # only the labels are strings
            return data
        return self._batches(self._encode(x, y, sample_weight), batch_size)

    @property
    def _has_positions(self):
        """Whether labels and logits belong to positions, not to texts."""
        return not isinstance(self.student, keras_hub.models.TextClassifier)

    def _batches(self, data, batch_size, rows=slice(None), shuffle=False):
        return text_batches(
            data, batch_size, rows, shuffle, self._has_positions
        )

    def _encode(self, x, y, sample_weight, shortens=True):
        """Returns the inputs, labels and weights that Keras can batch."""
        model = self._preparing_model()
        separate = self._separate_teachers()
        if _is_dataset(x):

            def preprocess(texts, *others):
                encoded = model.preprocess_samples(texts, *others)
                inputs, *rest = _as_tuple(encoded)
                for teacher in separate:
                    own = teacher.original.preprocess_samples(texts)
                    inputs = {**inputs, **_prefixed(teacher, own)}
                data = keras.utils.unpack_x_y_sample_weight((inputs, *rest))
                if shortens:
                    numpy = tf.experimental.numpy
                    data = shorten(data, self._has_positions, numpy)
                return keras.utils.pack_x_y_sample_weight(*data)

            made = x.map(preprocess, num_parallel_calls=-1)
            return made.prefetch(-1), y, sample_weight
        inputs, *rest = encode(model, x, y, sample_weight)
        for teacher in separate:
            own, *_ = encode(teacher.original, x)
            inputs = {**inputs, **_prefixed(teacher, own)}
        return inputs, *rest

    def _separate_teachers(self):
        """Returns the teachers that read texts by their own preprocessor."""
        return [
            model
            for model in keras.tree.flatten(self.teacher)
            if isinstance(model, SeparateTeacher)
        ]

    def _preparing_model(self):
        """Returns the model whose preprocessor makes all models' inputs."""
        student = self.student
        teachers = [
            model
            for model in keras.tree.flatten(self.teacher)
            if getattr(model, "preprocessor", None) is not None
        ]
        models = [student, *teachers]
        tokenizers = tuple(
            getattr(model.preprocessor, "tokenizer", None) for model in models
        )
        known = self._compared.tokenizers
        if [*map(id, known)] != [*map(id, tokenizers)]:
            for tokenizer in tokenizers[1:]:
                if None not in (tokenizer, tokenizers[0]):
                    require_same_ids(tokenizer, tokenizers[0])
            self._compared = _Compared(tokenizers)
        for teacher in teachers:
            require_same_settings(teacher, student)
        needed = set().union(*map(_input_names, models))
        return next(
            (model for model in models if _input_names(model) >= needed),
            student,
        )


def _as_tuple(data):
    return data if isinstance(data, tuple) else (data,)


def _prefixed(teacher, inputs):
    """A separate teacher's inputs, by their names in a batch."""
    return {f"{teacher.prefix}{name}": one for name, one in inputs.items()}


def encode(model, x, y=None, sample_weight=None) -> tuple:
    """Encodes columns of texts with a model's preprocessor."""
    given = _map_leaves(np.atleast_1d, (_columns(x), y, sample_weight))
    lengths = [len(one) for one in keras.tree.flatten(given) if one is not None]
    if len(set(lengths)) > 1:
        raise UsageError(
            "Texts, labels and sample weights need one entry per example, "
            f"received {lengths} entries."
        )
    parts = [
        keras.utils.unpack_x_y_sample_weight(part)
        for part in _preprocessed(model, given, lengths[0])
    ]
    return tuple(
        None if one[0] is None else keras.tree.map_structure(_joined, *one)
        for one in zip(*parts, strict=True)
    )


def _preprocessed(model, given, num_examples):
    """Yields the results of a model's preprocessor for parts of arrays."""
    if num_examples > ROWS_AT_ONCE and on_tensorflow():
        # Six times faster than the preprocessor's Python code.
        dataset = tf.data.Dataset.from_tensor_slices(
            keras.utils.pack_x_y_sample_weight(*given)
        )
        yield from dataset.batch(ROWS_AT_ONCE).map(
            model.preprocess_samples, num_parallel_calls=-1
        )
        return
    for start in range(0, num_examples, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        yield model.preprocess_samples(
            *_map_leaves(functools.partial(_rows, rows), given)
        )


def holds_texts(x) -> bool:
    """Whether inputs contain strings. Looks at types and at first entries."""
    if _is_dataset(x):
        x, *_ = keras.utils.unpack_x_y_sample_weight(x.element_spec)
    if isinstance(x, str | bytes):
        return True
    if isinstance(x, Mapping):
        return any(map(holds_texts, x.values()))
    if isinstance(x, list):
        return any(map(holds_texts, x[:FEW]))
    if isinstance(x, tuple):
        return any(map(holds_texts, x))
    if hasattr(x, "iloc"):  # a column or a table of pandas
        x = np.asarray(x)
    if isinstance(x, np.ndarray):
        is_text = x.dtype.kind in "UST"
        return is_text or any(
            isinstance(one, str | bytes) for one in x.flat[:FEW]
        )
    return getattr(getattr(x, "dtype", None), "name", None) == "string"


def _is_dataset(x):
    """Whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return hasattr(x, "element_spec") and hasattr(x, "map")


def require_same_settings(teacher, student) -> None:
    """Raises an error if two models' preprocessors encode texts differently."""
    if teacher.preprocessor is student.preprocessor:
        return
    theirs, ours = (
        getattr(model.preprocessor, "get_config", dict)()
        for model in (teacher, student)
    )
    for name, value in theirs.items():
        if name not in _NAMES and name in ours and ours[name] != value:
            raise UsageError(
                "Teacher and student read the same batches, but their "
                f"preprocessors differ in {name}: {value} and {ours[name]}."
            )


def _input_names(model):
    """Returns the names of a model's inputs, empty if they have none."""
    try:
        inputs = model.input
    except (AttributeError, ValueError):  # not a functional model
        return set()
    return set(inputs) if isinstance(inputs, dict) else set()


def _reads_strings(model):
    """Whether an input of a model is strings, as for `TextVectorization`."""
    try:
        return any(one.dtype == "string" for one in model.inputs)
    except (AttributeError, ValueError, TypeError):  # a subclassed model
        return False


def _columns(x):
    """Returns one array of strings, a tuple of two, or a dict."""
    if isinstance(x, Mapping):
        return {
            name: _column(one) if holds_texts(one) else np.asarray(one)
            for name, one in x.items()
        }
    first = None
    if isinstance(x, list | tuple):
        first = next((one for one in x if one is not None), None)
    is_row = isinstance(x, tuple) and isinstance(first, str | bytes)
    if hasattr(first, "__len__") and not isinstance(first, str | bytes):
        columns = x
    else:
        values = np.asarray(x, dtype=object)
        columns = [values] if values.ndim == 1 else [*values.T]
    if is_row or isinstance(first, tuple) or len(columns) > 2:
        raise UsageError(
            "Texts are not in columns. Expected a list of strings, or for "
            "pairs a tuple of two lists."
        )
    columns = tuple(map(_column, columns))
    return columns[0] if len(columns) == 1 else columns


def _column(values):
    """Returns a column as an array of Python's strings."""
    texts = np.asarray(values, dtype=object)
    return np.array(
        [one.decode() if isinstance(one, bytes) else one for one in texts],
        dtype=object,
    )


def _map_leaves(function, given):
    """Maps leaves. As in keras-hub, a list is a leaf, and a tuple is not."""
    if isinstance(given, tuple):
        return tuple(_map_leaves(function, one) for one in given)
    if isinstance(given, Mapping):
        return {name: _map_leaves(function, one) for name, one in given.items()}
    return None if given is None else function(given)


def _rows(rows, values):
    """Returns some rows, strings as the list that keras-hub expects."""
    return values[rows].tolist() if values.dtype == object else values[rows]


def _joined(*parts):
    """Returns one array for the preprocessor's results for several calls."""
    parts = [ops.convert_to_numpy(part) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
