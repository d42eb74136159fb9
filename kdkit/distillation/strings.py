"""Texts as the inputs of a `Distiller`, encoded by its student's preprocessor.

keras-hub's task models preprocess every input. A distiller preprocesses texts
only, so that encoded batches are not tokenized again.
"""

import functools
import inspect
import math
import warnings

import keras
import keras_hub
import numpy as np

from kdkit.distillation.first_batch import (
    BATCH_SIZE,
    FirstBatch,
    is_dataset,
)
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.models.tokenizer_kinds import require_same_ids

PARTS = ("x", "y", "sample_weight")
# The lengths of batches, up to the preprocessor's. XLA compiles each of them.
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# Entries of a preprocessor's config that do not change its results.
_NAMES = {"name", "dtype", "trainable", "tokenizer"}


class Texts:
    """The methods of a `Distiller` that take texts as well as arrays.

    They have the signatures of the methods of `keras.Model`.
    """

    @functools.wraps(keras.Model.fit, assigned=())
    def fit(self, *args, **kwargs):
        """Trains the student, as `keras.Model.fit` does."""
        bound = self._with_batches(super().fit, args, kwargs)
        first = FirstBatch(self)
        if not self.has_checked_data:
            first.look_at(bound.arguments)
        try:
            history = super().fit(*bound.args, **bound.kwargs)
        except Exception:
            if first.error is not None:
                raise first.error from None
            raise
        self._warn_of_unused_metrics()
        return history

    @functools.wraps(keras.Model.evaluate, assigned=())
    def evaluate(self, *args, **kwargs):
        """Returns the losses and metrics, as `keras.Model.evaluate` does."""
        bound = self._with_batches(super().evaluate, args, kwargs)
        values = super().evaluate(*bound.args, **bound.kwargs)
        self._warn_of_unused_metrics()
        return values

    @functools.wraps(keras.Model.predict, assigned=())
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

    def _with_batches(self, method, args, kwargs):
        """Returns a method's arguments, with encoded batches of texts."""
        bound = inspect.signature(method).bind(*args, **kwargs)
        given = bound.arguments
        size = given.get("batch_size") or BATCH_SIZE
        held_out_size = given.get("validation_batch_size") or size
        if self._reads_texts(given.get("x")):
            parts = ("x",) if is_dataset(given["x"]) else PARTS
            data = [given.pop(name, None) for name in parts]
            share = given.pop("validation_split", 0.0)
            if share and given.get("validation_data") is None:
                data, given["validation_data"] = _split(data, share)
            parameters = bound.signature.parameters
            shuffles = given.get("shuffle", "shuffle" in parameters)
            if shuffles:
                given["shuffle"] = False  # is done
            # `predict` joins batches, so logits per position have one length.
            is_cut = "y" in parameters or _is_classifier(self.student)
            given["x"] = self._encoded(data, size, shuffles, is_cut)
        held_out = given.get("validation_data")
        data = held_out if isinstance(held_out, tuple) else (held_out,)
        if self._reads_texts(data[0]):
            given["validation_data"] = self._encoded(data, held_out_size)
        return bound

    def _reads_texts(self, x):
        """Whether inputs are texts that the student's preprocessor encodes."""
        has_preprocessor = getattr(self.student, "preprocessor", None)
        return has_preprocessor is not None and holds_texts(x)

    def _encoded(self, data, size, shuffles=False, is_cut=True):
        """Returns a `tf.data.Dataset` of encoded batches of texts."""
        batches, *labels = data
        if not is_dataset(batches):
            columns = _columns(batches)
            columns = keras.utils.pack_x_y_sample_weight(columns, *labels)
            rows = tf.data.Dataset.from_tensor_slices(columns)
            if shuffles:
                rows = rows.shuffle(len(rows))
            batches = rows.batch(size)
        model = self._preparing_model()
        separate = [
            teacher
            for teacher in keras.tree.flatten(self.teacher)
            if isinstance(teacher, SeparateTeacher)
        ]

        def encode(texts, *labels):
            inputs, *labels = encoded_batch(model, is_cut, texts, *labels)
            for teacher in separate:
                inputs |= teacher.encode(texts)
            return inputs, *labels

        return batches.map(encode, num_parallel_calls=-1).prefetch(-1)

    def _preparing_model(self):
        """Returns the model whose preprocessor makes all models' inputs."""
        models = [self.student]
        for teacher in keras.tree.flatten(self.teacher):
            if getattr(teacher, "preprocessor", None) is not None:
                _require_same_preprocessor(teacher, self.student)
                models.append(teacher)
        return max(models, key=lambda model: len(model.input))


def holds_texts(x) -> bool:
    """Whether inputs are strings. Looks at types and at the first text."""
    if is_dataset(x):
        x, *_ = keras.utils.unpack_x_y_sample_weight(x.element_spec)
    first, *_ = keras.tree.flatten(x) or [None]
    dtype = getattr(first, "dtype", None)
    # TensorFlow's string has a name. NumPy's and pandas' have a kind.
    kind = getattr(dtype, "kind", None) or getattr(dtype, "name", None)
    return isinstance(first, str | bytes) or kind in ("O", "U", "S", "string")


def _columns(x):
    """Returns one array of strings, or a tuple of two."""
    columns = x if isinstance(x, tuple) else (x,)
    columns = tuple(np.asarray(column) for column in columns)
    if len(columns) > 2 or any(column.ndim != 1 for column in columns):
        raise UsageError(
            "Texts are not in columns. Expected a list of strings, or for "
            "pairs a tuple of two lists."
        )
    return columns if len(columns) == 2 else columns[0]


def _split(data, share):
    """Splits columns as Keras does: the last examples are held out."""
    x, *labels = data
    data = (_columns(x), *labels)
    count = math.floor(len(keras.tree.flatten(data)[0]) * (1.0 - share))
    return [
        keras.tree.map_structure(
            lambda one, rows=rows: (
                None if one is None else np.asarray(one)[rows]
            ),
            data,
        )
        for rows in (slice(count), slice(count, None))
    ]


def _is_classifier(model):
    """Whether labels and logits belong to texts, not to positions."""
    return isinstance(model, keras_hub.models.TextClassifier)


def encoded_batch(model, is_cut, texts, *labels) -> tuple:
    """Returns a batch as a model's preprocessor encodes it.

    `is_cut` leaves out the padding that all texts have at their end.
    """
    batch = model.preprocess_samples(texts, *labels)
    inputs, *labels = batch if isinstance(batch, tuple) else (batch,)
    mask = inputs.get("padding_mask") if is_cut else None
    if mask is None:  # an encoder-decoder has two masks
        return inputs, *labels
    end = _end(mask)

    def cut(one):
        has_positions = len(one.shape) > 1 and one.shape[1] == mask.shape[1]
        return one[:, :end] if has_positions else one

    inputs = {name: cut(one) for name, one in inputs.items()}
    if not _is_classifier(model):
        labels = list(map(cut, labels))
    return inputs, *labels


def _end(mask):
    """Returns the smallest of the lengths that has all real positions."""
    length = mask.shape[1]
    lengths = [one for one in LENGTHS if one < length]
    lengths = tf.constant([*lengths, length])
    positions = tf.range(1, length + 1)
    last = tf.reduce_max(positions * tf.cast(mask, "int32"))
    return tf.reduce_min(tf.where(lengths >= last, lengths, length))


def _require_same_preprocessor(teacher, student):
    """Raises an error if two models' preprocessors encode texts differently."""
    theirs, ours = (
        model.preprocessor.get_config() for model in (teacher, student)
    )
    for name in (theirs.keys() & ours.keys()) - _NAMES:
        if theirs[name] != ours[name]:
            raise UsageError(
                "Teacher and student read the same batches, but their "
                f"preprocessors differ in {name}: {theirs[name]} and "
                f"{ours[name]}."
            )


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
        inputs, *_ = encoded_batch(self.original, True, texts)
        return {f"{self.prefix}{name}": one for name, one in inputs.items()}


def with_own_inputs(teacher, student, objectives) -> list:
    """Returns teachers, with inputs of their own if their ids are others."""
    teachers = keras.tree.flatten(teacher)
    found = []
    for number, model in enumerate(teachers, start=1):
        try:
            _require_shared_ids(model, student)
        except UsageError:
            # Classifiers of different vocabularies can compare their logits.
            are_classifiers = all(
                isinstance(one, keras_hub.models.TextClassifier)
                for one in (model, student)
            )
            on_logits = all(one.tap == "logits" for one in objectives)
            if not (are_classifiers and on_logits):
                raise
            prefix = f"teacher_{number}_" if len(teachers) > 1 else "teacher_"
            model = SeparateTeacher(model, prefix)
        found.append(model)
    return found


def _require_shared_ids(teacher, student):
    """Raises an error if the ids of two models with tokenizers differ."""
    tokenizers = [
        getattr(getattr(model, "preprocessor", None), "tokenizer", None)
        for model in (teacher, student)
    ]
    if None not in tokenizers:
        require_same_ids(*tokenizers)
