"""The Distiller refuses contradictory settings."""

import functools
import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops
from kit.backend import tensorflow_only

import kdkit
from kdkit import losses
from kdkit.errors import UsageError
from kdkit.late import tf
from kdkit.taps import TEACHER_OUTPUTS

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 12
SOFT = losses.SoftCrossEntropy
on_logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Softmax(layers.Layer):
    """Whose graph does not show that it is a softmax."""

    def call(self, inputs):
        return ops.softmax(inputs)


class Sigmoid(layers.Layer):
    def call(self, inputs):
        return ops.sigmoid(inputs)


def net(width, num_classes=3, end=None, wrap=None):
    inputs = keras.Input((4,))
    outputs = layers.Dense(width, "relu")(inputs)
    outputs = layers.Dense(num_classes)(outputs)
    if end is not None:
        outputs = end(outputs)
    return keras.Model(inputs, outputs if wrap is None else wrap(outputs))


def rows():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 4)).astype("float32")
    return x, np.arange(ROWS) % 3


def distiller(
    teacher=None,
    student=None,
    loss=None,
    num_classes=3,
    hard_label_weight=0.0,
):
    return kdkit.Distiller(
        net(6, num_classes) if teacher is None else teacher,
        net(5, num_classes) if student is None else student,
        [kdkit.Objective(loss or SOFT())],
        hard_label_weight=hard_label_weight,
    )


def assert_refused(model, message, *data, method="fit", **arguments):
    """Checks that nothing has changed when the error comes."""
    before = model.student.get_weights()
    with pytest.raises(UsageError, match=message):
        getattr(model, method)(*data, **arguments)
    for value, old in zip(model.student.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)
    assert int(model.optimizer.iterations.value) == 0


class OwnLoss(keras.losses.Loss):
    """A loss of others with `from_logits`, as Keras' have it."""

    def __init__(self, from_logits=False):
        super().__init__()
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        return keras.losses.sparse_categorical_crossentropy(
            y_true, y_pred, from_logits=self.from_logits
        )


def short_name(loss):
    """A name for a test, without an address in memory."""
    return getattr(loss, "name", None) or type(loss).__name__


ON_PROBABILITIES = [
    "sparse_categorical_crossentropy",
    "kld",
    keras.losses.BinaryCrossentropy(),
    keras.losses.CategoricalGeneralizedCrossEntropy(),
    keras.losses.Dice(),
    keras.losses.sparse_categorical_crossentropy,
    functools.partial(keras.losses.binary_crossentropy, axis=-1),
    OwnLoss(),
    {"logits": "sparse_categorical_crossentropy"},
    ["categorical_crossentropy"],
]


@pytest.mark.parametrize("loss", ON_PROBABILITIES)
def test_losses_on_probabilities_are_refused(loss):
    model = distiller(hard_label_weight=1.0)
    with pytest.raises(UsageError, match="expects probabilities"):
        model.compile("adam", loss=loss)


@pytest.mark.parametrize(
    "loss",
    [
        on_logits,
        functools.partial(
            keras.losses.sparse_categorical_crossentropy, from_logits=True
        ),
        OwnLoss(from_logits=True),
        losses.SmoothedCrossEntropy(0.1),
        lambda y_true, y_pred: on_logits(y_true, y_pred),
        [on_logits],
        "mse",
        None,
    ],
    ids=short_name,
)
def test_other_losses_compile(loss):
    distiller(hard_label_weight=1.0).compile("adam", loss=loss)


def test_a_compiled_loss_without_weight_warns_once():
    model = distiller()
    with pytest.warns(UserWarning, match="hard_label_weight is 0"):
        model.compile("adam", loss=on_logits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile("adam", loss=on_logits)
        model.fit(*rows(), verbose=0)
        distiller().compile("adam")


@pytest.mark.parametrize(
    "loss",
    [
        on_logits,
        keras.losses.CategoricalCrossentropy(from_logits=True),
        keras.losses.CategoricalFocalCrossentropy(from_logits=True),
        losses.SmoothedCrossEntropy(0.1),
    ],
    ids=short_name,
)
def test_compiled_softmax_losses_over_a_single_logit_are_refused(loss):
    model = distiller(
        num_classes=1, loss=losses.LogitMSE(), hard_label_weight=1.0
    )
    with pytest.raises(UsageError, match="applies a softmax"):
        model.compile("adam", loss=loss)


@pytest.mark.parametrize("role", ["teacher", "student"])
@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_softmax_that_the_graph_hides_is_refused_before_an_update(role, method):
    model = distiller(**{role: net(7, end=Softmax())})
    model.compile("adam")
    arguments = {"verbose": 0} if method == "fit" else {}
    message = f"outputs of the {role} are probabilities"
    for _ in range(2):  # also when it is tried again
        assert_refused(model, message, rows()[0], method=method, **arguments)


def test_softmax_of_a_student_on_labels_alone_is_refused():
    model = kdkit.Distiller(
        net(6),
        net(5, end=Softmax()),
        [kdkit.Objective(losses.LogitMSE(), weight=0.0)],
        hard_label_weight=1.0,
    )
    model.compile("adam", loss=on_logits)
    assert_refused(model, "outputs of the student", *rows(), verbose=0)


def test_half_precision_probabilities_are_recognised():
    def end(logits):
        return Softmax(dtype="bfloat16")(logits)

    model = distiller(teacher=net(7, end=end))
    model.compile("adam")
    assert_refused(model, "outputs of the teacher", rows()[0], verbose=0)


def test_logits_that_are_not_negative_train():
    model = distiller(teacher=net(7, end=layers.ReLU()))
    model.compile("adam")
    model.fit(rows()[0], verbose=0)


def test_values_of_a_sigmoid_that_the_graph_hides_give_a_warning_once():
    model = distiller(
        teacher=net(7, end=Sigmoid()), loss=losses.SoftBinaryCrossEntropy()
    )
    model.compile("adam")
    with pytest.warns(UserWarning, match="may be probabilities") as caught:
        model.fit(rows()[0], epochs=2, verbose=0)
    assert len(caught) == 1


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_cached_outputs_are_read_before_an_update(kind):
    model = distiller()
    model.compile("adam")
    x, _ = rows()
    student = keras.Model(model.student.input, model.student.output)
    logits = np.array(ops.convert_to_numpy(student(x)))
    if kind == "probabilities":
        logits = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    inputs = keras.Input((4,), name="x")
    named = keras.Model({"x": inputs}, model.student(inputs))
    model = distiller(student=named)
    model.compile("adam")
    data = {"x": x, TEACHER_OUTPUTS: ({"logits": logits},)}
    if kind == "logits":
        model.train_on_batch(data)
    else:
        assert_refused(
            model, "outputs of the teacher", data, method="train_on_batch"
        )


def test_a_new_teacher_is_looked_at_too():
    model = distiller()
    model.compile("adam")
    model.fit(rows()[0], verbose=0)
    model.attach_teacher(net(7, end=Softmax()))
    with pytest.raises(UsageError, match="outputs of the teacher"):
        model.fit(rows()[0], verbose=0)


@tensorflow_only
@pytest.mark.parametrize(
    "options",
    [{}, {"jit_compile": True}, {"steps_per_execution": 2}],
    ids=["plain", "jit_compile", "steps_per_execution"],
)
def test_the_first_batch_of_a_dataset_is_used_and_nothing_traced_twice(options):
    x, y = rows()
    seen, traces = [], []

    def note(row):
        seen.append(int(row))
        return row

    def take(row):
        row = tf.ensure_shape(tf.py_function(note, [row], tf.int64), ())
        return tf.gather(x, row), tf.gather(y, row)

    data = tf.data.Dataset.range(ROWS).map(take).batch(2)

    class Noted(kdkit.Distiller):
        def train_step(self, data):
            traces.append(1)
            return super().train_step(data)

    model = Noted(net(6), net(5), kdkit.Objective(SOFT()), 1.0)
    model.compile("adam", loss=on_logits, run_eagerly=False, **options)
    model.fit(data, shuffle=False, verbose=0)
    assert sorted(seen) == [*range(ROWS)]
    assert int(model.optimizer.iterations.value) == ROWS // 2
    assert len(traces) == 1


@tensorflow_only
def test_data_with_and_without_labels_and_weights_passes_the_first_look():
    x, _ = rows()
    weights = np.ones(ROWS, "float32")
    for parts in ((x,), (x, None, weights)):
        data = tf.data.Dataset.from_tensor_slices(x).batch(4)
        if len(parts) > 1:
            data = data.map(lambda rows: (rows, None, tf.ones(len(rows))))
        model = distiller()
        model.compile("adam")
        history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
        assert len(history["loss"]) == 2
        assert int(model.optimizer.iterations.value) == 6


BAD_LABELS = [
    (np.where(rows()[1] == 1, -100, rows()[1]), "received -100"),
    (rows()[1] - 1, "received -1"),
    (rows()[1] + 1, "from 0 to 2, received 3"),
]


@pytest.mark.parametrize(("y", "message"), BAD_LABELS)
@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_labels_that_are_no_classes_are_refused(y, message, method):
    model = distiller(hard_label_weight=1.0)
    model.compile("adam", loss=on_logits)
    arguments = {"verbose": 0} if method == "fit" else {}
    assert_refused(model, message, rows()[0], y, method=method, **arguments)


def test_labels_that_the_loss_ignores_train():
    model = distiller(hard_label_weight=1.0)
    model.compile(
        "adam",
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=-100
        ),
    )
    x, y = rows()
    logs = model.fit(x, np.where(y == 1, -100, y), verbose=0).history
    assert np.isfinite(logs["loss"][0])


def test_negative_labels_of_smoothed_and_binary_losses_are_refused():
    x, y = rows()
    smoothed = distiller(hard_label_weight=1.0)
    smoothed.compile("adam", loss=losses.SmoothedCrossEntropy(0.1))
    assert_refused(smoothed, "from 0 to 2", x, y - 1, verbose=0)
    binary = distiller(
        loss=losses.SoftBinaryCrossEntropy(), hard_label_weight=1.0
    )
    binary.compile(
        "adam", loss=keras.losses.BinaryCrossentropy(from_logits=True)
    )
    targets = np.where(np.eye(3)[y], -100.0, 0.0)
    assert_refused(binary, "numbers from 0 to 1", x, targets, verbose=0)


WRAPS = {
    "dict": lambda outputs: {"scores": outputs},
    "list": lambda outputs: [outputs],
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_model_with_one_output_in_a_dict_trains_as_without(wrap):
    def build(width, wrap):
        keras.utils.set_random_seed(width)
        return net(width, wrap=wrap)

    x, y = rows()
    found = []
    for given in (wrap, None):
        teacher, student = (build(width, given) for width in (6, 5))
        model = distiller(teacher, student, hard_label_weight=0.5)
        model.compile(
            keras.optimizers.SGD(0.1), loss=on_logits, metrics=["accuracy"]
        )
        logs = model.fit(x, y, verbose=0, shuffle=False).history
        logs = {name: value for name, (value,) in logs.items()}
        found.append((logs, student.get_weights()))
    assert found[0][0] == pytest.approx(found[1][0])
    for ours, theirs in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_losses_and_labels_by_the_name_of_the_output_train():
    model = distiller(
        student=net(5, wrap=lambda outputs: {"scores": outputs}),
        hard_label_weight=1.0,
    )
    model.compile(
        "adam", loss={"scores": on_logits}, metrics={"scores": ["accuracy"]}
    )
    x, y = rows()
    logs = model.fit(x, {"scores": y}, verbose=0).history
    assert np.isfinite(logs["hard_label_loss"]).all()
    assert 0 <= logs["accuracy"][0] <= 1


def one_logit(**given):
    """A distiller whose student has one logit."""
    teacher, student = (
        keras.Sequential([keras.Input((4,)), layers.Dense(1)]) for _ in range(2)
    )
    objective = kdkit.Objective(losses.SoftBinaryCrossEntropy())
    return kdkit.Distiller(teacher, student, objective, **given)


@pytest.mark.parametrize(
    "metric", ["accuracy", "AUC", "Recall", "F1Score", "BinaryCrossentropy"]
)
def test_metrics_of_probabilities_are_refused(metric):
    with pytest.raises(UsageError, match="expects probabilities"):
        one_logit().compile("sgd", metrics=["mse", metric])


@pytest.mark.parametrize(
    ("metric", "right"),
    [
        (lambda: keras.metrics.Precision(class_id=1), "thresholds=0.0"),
        (lambda: keras.metrics.F1Score(threshold=0.5), "threshold=1e-07"),
        (lambda: keras.metrics.BinaryAccuracy(), "threshold=0.0"),
        (lambda: "accuracy", None),
        (lambda: keras.metrics.F1Score(), None),
        (lambda: keras.metrics.Precision(top_k=1, class_id=1), None),
        (lambda: lambda y_true, y_pred: y_pred[:, 0], None),
    ],
)
def test_metrics_of_several_logits(metric, right):
    model, metric = distiller(), metric()
    if right is None:
        model.compile("sgd", metrics=[metric])
    else:
        with pytest.raises(UsageError, match=right):
            model.compile("sgd", metrics=[metric])
