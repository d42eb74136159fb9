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
TEXT_TYPES = ("str", "bytes", "object")
# The lengths of batches, up to the preprocessor's. XLA compiles each of them.
LENGTHS = 2 ** np.arange(4, 20, dtype="int32")
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
        with FirstBatch(self, bound.arguments):
            history = super().fit(*bound.args, **bound.kwargs)
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
        if len(self.metrics) < len(super().metrics):
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
        held_out = given.get("validation_data")
        held_out_size = given.get("validation_batch_size") or size
        if isinstance(held_out, tuple) and self._reads_texts(held_out[0]):
            held_out = _rows(*held_out).batch(held_out_size)
        parameters = bound.signature.parameters
        x = given.get("x")
        if self._reads_texts(x):
            shuffles = given.get("shuffle", "shuffle" in parameters)
            if not is_dataset(x):
                data = [given.pop(part, None) for part in PARTS]
                rows = _rows(*data)
                share = given.pop("validation_split", 0.0)
                if share and held_out is None:
                    # As Keras does: the last examples are held out.
                    count = math.floor(len(rows) * (1.0 - share))
                    held_out = rows.skip(count).batch(held_out_size)
                    rows = rows.take(count)
                if shuffles:
                    rows = rows.shuffle(len(rows))
                x = rows.batch(size)
            if shuffles:
                given["shuffle"] = False  # is done
            # `predict` joins batches: logits per position have one length.
            given["x"] = self._encoded(x, is_cut="y" in parameters)
        if held_out is not None:
            if self._reads_texts(held_out):
                held_out = self._encoded(held_out)
            given["validation_data"] = held_out
        return bound

    def _reads_texts(self, x):
        """Whether inputs are texts that the student's preprocessor encodes."""
        has_preprocessor = getattr(self.student, "preprocessor", None)
        return has_preprocessor is not None and holds_texts(x)

    def _encoded(self, batches, is_cut=True):
        """Returns a `tf.data.Dataset` of encoded batches of texts."""
        x, *_ = keras.utils.unpack_x_y_sample_weight(batches.element_spec)
        model = self._preparing_model(len(keras.tree.flatten(x)) > 1)
        teachers = keras.tree.flatten(self.teacher)

        def encode(texts, *labels):
            inputs, *labels = encoded_batch(model, is_cut, texts, *labels)
            for teacher in teachers:
                if isinstance(teacher, SeparateTeacher):
                    inputs |= teacher.encode(texts)
            return inputs, *labels

        batches = batches.map(encode, num_parallel_calls=-1)
        return batches.prefetch(-1)

    def _preparing_model(self, has_pairs):
        """Returns the model whose preprocessor makes all models' inputs."""
        models = [self.student]
        for teacher in keras.tree.flatten(self.teacher):
            if getattr(teacher, "preprocessor", None) is not None:
                models.append(teacher)
                _require_same_preprocessor(teacher, self.student, has_pairs)
        return max(models, key=lambda model: len(model.input))


def holds_texts(x) -> bool:
    """Whether inputs are strings. Looks at types and at the first text."""
    if is_dataset(x):
        x, *_ = keras.utils.unpack_x_y_sample_weight(x.element_spec)
    first = keras.tree.flatten(x)[0]
    dtype = getattr(first, "dtype", None)
    name = getattr(dtype, "name", "")  # "str64", "string" or "object"
    return isinstance(first, str | bytes) or name.startswith(TEXT_TYPES)


def _rows(x, *labels):
    """Returns a dataset of single texts, or pairs, with their labels."""
    if not isinstance(x, tuple):
        x = (x,)
    columns = tuple(map(np.asarray, x))
    are_flat = all(column.ndim == 1 for column in columns)
    if len(columns) > 2 or not are_flat:
        raise UsageError(
            "Texts are not in columns. Expected a list of strings, or for "
            "pairs a tuple of two lists."
        )
    texts = columns if len(columns) == 2 else columns[0]
    rows = keras.utils.pack_x_y_sample_weight(texts, *labels)
    return tf.data.Dataset.from_tensor_slices(rows)


def _is_classifier(model):
    """Whether labels and logits belong to texts, not to positions."""
    return isinstance(model, keras_hub.models.TextClassifier)


def encoded_batch(model, is_cut, texts, *labels):
    """Returns a batch as a model's preprocessor encodes it.

    `is_cut` leaves out the padding that all texts have at their end, also for
    labels of positions.
    """
    batch = model.preprocess_samples(texts, *labels)
    if not isinstance(batch, tuple):
        batch = (batch,)
    inputs, *labels = batch
    has_classes = _is_classifier(model)
    mask = inputs.get("padding_mask")
    # An encoder-decoder has two masks.
    if mask is None or not (is_cut or has_classes):
        return inputs, *labels
    positions = tf.range(1, mask.shape[1] + 1)
    last = tf.reduce_max(positions * tf.cast(mask, "int32"))
    end = tf.reduce_min(tf.where(last <= LENGTHS, LENGTHS, LENGTHS[-1]))

    def cut(one):
        if one.ndim == 1 or one.shape[1] != mask.shape[1]:
            return one
        return one[:, :end]

    inputs = keras.tree.map_structure(cut, inputs)
    if not has_classes:
        labels = keras.tree.map_structure(cut, labels)
    return inputs, *labels


def _require_same_preprocessor(teacher, student, has_pairs):
    """Raises an error if two models' preprocessors encode texts differently."""
    theirs = teacher.preprocessor.get_config()
    ours = student.preprocessor.get_config()
    shared = theirs.keys() & ours.keys()
    for name in shared - _NAMES:
        if theirs[name] != ours[name]:
            raise UsageError(
                "Teacher and student read the same batches, but their "
                f"preprocessors differ in {name}: {theirs[name]} and "
                f"{ours[name]}."
            )
    if has_pairs and all(map(_is_classifier, (teacher, student))):
        pair = tf.constant(["a"]), tf.constant(["b"])
        found = [one.preprocess_samples(pair) for one in (teacher, student)]
        theirs, ours = (np.asarray(one["token_ids"]) for one in found)
        if not np.array_equal(theirs, ours):
            raise UsageError(
                "Teacher and student read the same batches, but join the texts "
                f"of a pair differently: {theirs[0, :8]} and {ours[0, :8]}."
            )


# Teachers with a vocabulary of their own.


class SeparateTeacher(keras.Model):
    """A teacher with a vocabulary of its own, whose inputs have a prefix."""

    def __init__(self, teacher, prefix):
        inputs = {
            name: keras.Input(
                batch_shape=tensor.shape, dtype=tensor.dtype, name=prefix + name
            )
            for name, tensor in teacher.input.items()
        }
        by_name = {tensor.name: tensor for tensor in inputs.values()}
        super().__init__(by_name, teacher(inputs), name=teacher.name)
        self.prefix = prefix
        self.original = teacher

    def encode(self, texts):
        """Returns the inputs for texts, by their names in a batch."""
        inputs, *_ = encoded_batch(self.original, True, texts)
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
            are_classifiers = all(map(_is_classifier, (model, student)))
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
