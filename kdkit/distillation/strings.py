"""Texts as the inputs of a `Distiller`, encoded by its student's preprocessor.

keras-hub's task models preprocess every input. A distiller preprocesses texts
only, so that encoded batches are not tokenized again.
"""

import functools
import inspect
import math
import warnings
from collections.abc import Mapping
from contextlib import nullcontext

import keras
import keras_hub
import numpy as np

from kdkit.distillation.first_batch import BATCH_SIZE, FirstBatch
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.models.tokenizer_kinds import require_same_ids

PARTS = ("x", "y", "sample_weight")
# The lengths of batches, up to the preprocessor's. XLA compiles each of them.
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
MASK = "padding_mask"  # `"decoder_padding_mask"` in an encoder-decoder
FEW = 9  # entries of a column that show whether it is one of texts
# Entries of a preprocessor's config that do not change its results.
_NAMES = ("name", "dtype", "trainable", "tokenizer")


def _like(method):
    """Gives a method the signature of the method of `keras.Model`."""
    return functools.wraps(method, assigned=())


class Texts:
    """The methods of a `Distiller` that take texts as well as arrays."""

    @_like(keras.Model.fit)
    def fit(self, *args, **kwargs):
        """Trains the student, as `keras.Model.fit` does."""
        bound = self._with_batches(super().fit, args, kwargs)
        given = bound.arguments
        first = FirstBatch(self._validator())
        if not self.has_checked_data:
            data = [given.get(name) for name in (*PARTS, "batch_size")]
            given["x"] = first.of(*data)
        try:
            history = super().fit(*bound.args, **bound.kwargs)
        except Exception:
            if first.error is not None:
                raise first.error from None
            raise
        self._warn_of_unused_metrics()
        return history

    @_like(keras.Model.evaluate)
    def evaluate(self, *args, **kwargs):
        """Returns the losses and metrics, as `keras.Model.evaluate` does."""
        bound = self._with_batches(super().evaluate, args, kwargs)
        values = super().evaluate(*bound.args, **bound.kwargs)
        self._warn_of_unused_metrics()
        return values

    @_like(keras.Model.predict)
    def predict(self, *args, **kwargs):
        """Returns the student's logits, as `keras.Model.predict` does."""
        bound = self._with_batches(super().predict, args, kwargs)
        return super().predict(*bound.args, **bound.kwargs)

    def _warn_of_unused_metrics(self):
        if not all(getattr(one, "built", True) for one in super().metrics):
            warnings.warn(
                "The compiled metrics have no values, because the data has no "
                "labels. Pass labels, or compile without metrics.",
                stacklevel=3,
            )

    def _validator(self):
        """Returns a function of a batch that has the current values."""
        # Keras takes the variables' values on JAX before it reads a batch.
        on_jax = keras.config.backend() == "jax"
        values = [(one, one.value) for one in self.variables if on_jax]

        def validate(batch):
            if not self.has_checked_data:
                with keras.StatelessScope(values) if values else nullcontext():
                    self.validate_batch(batch)

        return validate

    def _with_batches(self, method, args, kwargs):
        """Returns a method's arguments, with encoded batches of texts."""
        bound = inspect.signature(method).bind(*args, **kwargs)
        given, names = bound.arguments, bound.signature.parameters
        size = given.get("batch_size") or BATCH_SIZE
        held_out_size = given.get("validation_batch_size") or size
        if self._must_encode(given.get("x")):
            batches = given["x"]
            if not _is_dataset(batches):
                rows = _rows(*[given.pop(name, None) for name in PARTS])
                share = given.pop("validation_split", 0.0)
                if share and given.get("validation_data") is None:
                    count = math.floor(len(rows) * (1.0 - share))
                    held_out = rows.skip(count).batch(held_out_size)
                    given["validation_data"] = self._encoded(held_out)
                    rows = rows.take(count)
                if "shuffle" in names and given.get("shuffle", True):
                    rows = rows.shuffle(len(rows))
                    given["shuffle"] = False  # is done
                given.pop("batch_size", None)
                batches = rows.batch(size)
            # Logits per position have one length in `predict`.
            is_cut = "y" in names or not self._has_positions
            given["x"] = self._encoded(batches, is_cut)
        # Keras reads a list as a tuple. One of texts is a column.
        held_out = _as_tuple(given.get("validation_data"))
        if self._must_encode(held_out[0]):
            batches = held_out[0]
            if not _is_dataset(batches):
                batches = _rows(*held_out).batch(held_out_size)
            given["validation_data"] = self._encoded(batches)
        return bound

    def _must_encode(self, x):
        """Whether inputs are texts, and the student does not read strings."""
        if not holds_texts(x):
            return False
        return all(one.dtype != "string" for one in _inputs(self.student))

    @property
    def _has_positions(self):
        """Whether labels and logits belong to positions, not to texts."""
        return not isinstance(self.student, keras_hub.models.TextClassifier)

    def _encoded(self, batches, is_cut=True):
        """Returns a `tf.data.Dataset` of encoded batches for one of texts."""
        model = self._preparing_model()
        has_positions = self._has_positions

        def encode(texts, *others):
            inputs, *rest = _as_tuple(model.preprocess_samples(texts, *others))
            for teacher in keras.tree.flatten(self.teacher):
                if isinstance(teacher, SeparateTeacher):
                    inputs = {**inputs, **teacher.encode(texts)}
            data = keras.utils.unpack_x_y_sample_weight((inputs, *rest))
            if is_cut:
                data = _without_padding(*data, has_positions)
            return keras.utils.pack_x_y_sample_weight(*data)

        return batches.map(encode, num_parallel_calls=-1).prefetch(-1)

    def _preparing_model(self):
        """Returns the model whose preprocessor makes all models' inputs."""
        student = self.student
        models = [student]
        for teacher in keras.tree.flatten(self.teacher):
            if getattr(teacher, "preprocessor", None) is not None:
                _require_same_preprocessor(teacher, student)
                models.append(teacher)
        return max(models, key=lambda model: len(_inputs(model)))


def holds_texts(x) -> bool:
    """Whether inputs contain strings. Looks at types and at first entries."""
    if _is_dataset(x):
        x, *_ = keras.utils.unpack_x_y_sample_weight(x.element_spec)
    return any(map(_is_text, keras.tree.flatten(x)))


def _is_text(one):
    if hasattr(one, "iloc"):  # a column or a table of pandas
        one = np.asarray(one)
    if isinstance(one, np.ndarray) and one.dtype.kind == "O":
        return any(isinstance(text, str | bytes) for text in one.flat[:FEW])
    dtype = getattr(one, "dtype", None)
    kind = getattr(dtype, "kind", None) or getattr(dtype, "name", "none")
    return isinstance(one, str | bytes) or kind in ("U", "S", "T", "string")


def _is_dataset(x):
    """Whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return hasattr(x, "element_spec") and hasattr(x, "map")


def _rows(x, y=None, sample_weight=None):
    """Returns columns as a `tf.data.Dataset` of their rows."""
    data = (_columns(x), *map(_as_array, (y, sample_weight)))
    data = keras.utils.pack_x_y_sample_weight(*data)
    return tf.data.Dataset.from_tensor_slices(data)


def _columns(x):
    """Returns one array of strings, a tuple of two, or a dict."""
    if isinstance(x, Mapping):
        return {name: np.asarray(one) for name, one in x.items()}
    is_list = isinstance(x, list | tuple)
    first = next((one for one in x if one is not None), None) if is_list else x
    if is_list and not isinstance(first, str | bytes):
        columns = tuple(map(np.asarray, x))
    else:
        values = np.asarray(x)
        columns = (values,) if values.ndim == 1 else tuple(values.T)
    is_row = isinstance(x, tuple) and isinstance(first, str | bytes)
    if is_row or isinstance(first, tuple) or len(columns) > 2:
        raise UsageError(
            "Texts are not in columns. Expected a list of strings, or for "
            "pairs a tuple of two lists."
        )
    return columns[0] if len(columns) == 1 else columns


def _as_array(values):
    return None if values is None else np.asarray(values)


def _as_tuple(data):
    return data if isinstance(data, tuple) else (data,)


def _without_padding(x, y, sample_weight, has_positions):
    """Cuts the padding that all texts of a batch have at their end."""
    if not isinstance(x, dict):
        return x, y, sample_weight
    cuts = {
        name.removesuffix(MASK): (mask.shape[1], _end(mask))
        for name, mask in x.items()
        if name.endswith(MASK) and len(mask.shape) == 2
    }

    def cut(value, name):
        prefixes = [prefix for prefix in cuts if name.startswith(prefix)]
        if value is None or len(value.shape) < 2 or not prefixes:
            return value
        length, end = cuts[max(prefixes, key=len)]
        return value[:, :end] if value.shape[1] == length else value

    x = {name: cut(value, name) for name, value in x.items()}
    if has_positions:
        y, sample_weight = cut(y, "decoder_"), cut(sample_weight, "decoder_")
    return x, y, sample_weight


def _end(mask):
    """Returns the smallest of the lengths that has all real positions."""
    length = mask.shape[1]
    lengths = tf.constant([*(one for one in LENGTHS if one < length), length])
    real = tf.reduce_max(tf.range(1, length + 1) * tf.cast(mask, "int32"))
    return tf.reduce_min(tf.where(lengths >= real, lengths, length))


def _require_same_preprocessor(teacher, student):
    """Raises an error if two models' preprocessors encode texts differently."""
    both = teacher.preprocessor, student.preprocessor
    if both[0] is both[1] or both[1] is None:
        return
    _require_shared_ids(teacher, student)
    theirs, ours = (one.get_config() for one in both)
    for name, value in theirs.items():
        if name not in _NAMES and name in ours and ours[name] != value:
            raise UsageError(
                "Teacher and student read the same batches, but their "
                f"preprocessors differ in {name}: {value} and {ours[name]}."
            )


def _require_shared_ids(teacher, student):
    """Raises an error if the ids of two models with tokenizers differ."""
    tokenizers = [
        getattr(getattr(model, "preprocessor", None), "tokenizer", None)
        for model in (teacher, student)
    ]
    if None not in tokenizers:
        require_same_ids(*tokenizers)


def _inputs(model):
    """Returns a model's symbolic inputs, none for a subclassed model."""
    try:
        return [*model.inputs]
    except (AttributeError, ValueError, TypeError):
        return []


# Teachers with a vocabulary of their own.


class SeparateTeacher(keras.Model):
    """A teacher with a vocabulary of its own, whose inputs have a prefix."""

    def __init__(self, teacher, prefix):
        inputs = {
            name: keras.Input(
                batch_shape=tensor.shape,
                dtype=tensor.dtype,
                name=f"{prefix}{name}",
            )
            for name, tensor in teacher.input.items()
        }
        super().__init__(
            {f"{prefix}{name}": tensor for name, tensor in inputs.items()},
            teacher(inputs),
            name=teacher.name,
        )
        self.prefix = prefix
        self.original = teacher

    def encode(self, texts) -> dict:
        """Returns the inputs for texts, by their names in a batch."""
        inputs = self.original.preprocess_samples(texts)
        return {f"{self.prefix}{name}": one for name, one in inputs.items()}


def with_own_inputs(teacher, student, objectives):
    """Returns teachers, with inputs of their own if their ids are others."""
    teachers = keras.tree.flatten(teacher)
    found = []
    for number, model in enumerate(teachers, start=1):
        try:
            _require_shared_ids(model, student)
        except UsageError:
            # Classifiers of different vocabularies can compare their logits.
            is_classifier = isinstance(
                student, keras_hub.models.TextClassifier
            ) and isinstance(model, keras_hub.models.TextClassifier)
            on_logits = all(one.tap == "logits" for one in objectives)
            if not (is_classifier and on_logits):
                raise
            prefix = f"teacher_{number}_" if len(teachers) > 1 else "teacher_"
            model = SeparateTeacher(model, prefix)
        found.append(model)
    return found if isinstance(teacher, list | tuple) else found[0]
