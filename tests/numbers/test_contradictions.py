"""The Distiller refuses what it would train on a wrong number."""

import functools
import warnings

import keras
import numpy as np
import pytest
from keras import layers, losses, metrics, ops
from kit.encoders import encoder
from kit.helpers import (
    Hidden,
    TinyBackbone,
    assert_same_weights,
    batch,
    bert,
    cross_entropy,
)

import kdkit
from kdkit import Objective, taps
from kdkit.losses import (
    AttentionMSE,
    HiddenStateMSE,
    LogitMSE,
    SmoothedCrossEntropy,
    SoftBinaryCrossEntropy,
    SoftCrossEntropy,
)
from kdkit.taps import ModelShape

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 12
SOFT = SoftCrossEntropy()
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")
Y = np.arange(ROWS) % 3


def net(width=5, num_classes=3, end=None, wrap=None, seed=None):
    if seed is not None:
        keras.utils.set_random_seed(seed)
    inputs = keras.Input((4,), name="x")
    outputs = layers.Dense(num_classes)(layers.Dense(width, "relu")(inputs))
    outputs = outputs if end is None else end(outputs)
    return keras.Model(inputs, outputs if wrap is None else wrap(outputs))


def probabilities(**options):
    return net(7, end=Hidden(ops.softmax, **options))


def distiller(teacher=None, student=None, loss=SOFT, classes=3, **arguments):
    return kdkit.Distiller(
        teacher or net(6, classes),
        student or net(5, classes),
        Objective(loss),
        **arguments,
    )


# What objectives do not fit: sizes of a teacher, and a student of two blocks.

TEACHER = ModelShape(3, 4, 12, 2, has_pooled_output=True)
student = functools.cache(bert)  # which no error here changes


def given(*arguments, teacher=TEACHER, student=student, label_weight=0, **more):
    objective = Objective(*arguments, **more)
    return kdkit.Distiller(teacher, student(), objective, label_weight)


def hidden(**arguments):
    return given(HiddenStateMSE(), "hidden_states", **arguments)


def named(*names):
    terms = [Objective(LogitMSE(), name=name) for name in names]
    return kdkit.Distiller(TEACHER, student(), terms)


def weighted(*weights):
    teachers = [ModelShape(3), ModelShape(3)]
    return distiller(teachers, teacher_weights=weights)


def in_another_order():
    backbone = TinyBackbone()
    backbone.transformer_layers = backbone.transformer_layers[::-1]
    inputs = {name: batch()[name] for name in backbone.input}
    return taps.tapped(backbone, ["hidden_states"])(inputs)


def without_mask():
    backbone = encoder("distil_bert", num_classes=None)
    token_ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.Input((None,), dtype="int32", name="mask")
    states = backbone({"token_ids": token_ids, "padding_mask": mask})
    model = keras.Model([token_ids, mask], layers.Dense(2)(states[:, 0]))
    x = [batch()[name] for name in ("token_ids", "padding_mask")]
    assert [*taps.tapped(model, ["logits"])(x)] == ["logits"]
    return taps.tapped(model, ["hidden_states"])(x)


def of_one_name():
    functions = [lambda outputs: outputs["a"], lambda outputs: -outputs["a"]]
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="a")])
    return taps.tapped(model, functions)


def alone(loss):
    return distiller(loss=loss, classes=1)


MISTAKES = {
    "tap": (lambda: given(SOFT, "attention_scores"), "attention_scores"),
    "tap of another loss": (lambda: given(SOFT, "hidden_states"), "logits"),
    "tap of no model": (
        lambda: given(AttentionMSE(), "attention_logits", student=net),
        "attention_logits",
    ),
    "layer map": (lambda: hidden(layer_map="odd"), "odd"),
    "layer map of logits": (
        lambda: given(SOFT, layer_map="uniform"),
        "uniform",
    ),
    "pair reduction": (lambda: hidden(pair_reduction="max"), "max"),
    "projection": (lambda: hidden(projection="linear"), "'linear'.*shared"),
    "projection of logits": (
        lambda: given(SOFT, projection="shared"),
        "projection",
    ),
    "parity in a decoder": (
        lambda: given(AttentionMSE("tinybert"), "cross_attention_logits"),
        "parity",
    ),
    "weight": (lambda: hidden(weight=float("nan")), "`weight`.*nan"),
    "label weight": (lambda: given(SOFT, label_weight=-0.5), "-0.5"),
    "teacher weights": (lambda: weighted(1.0), "each of 2"),
    "names": (lambda: named("a", "b", "a"), "'a'"),
    "widths": (hidden, '12 .* 8 .*projection="shared"'),
    "heads": (
        lambda: given(
            AttentionMSE(),
            "attention_logits",
            student=lambda: student(num_heads=4),
        ),
        "2 .* 4",
    ),
    "vectors": (lambda: given(HiddenStateMSE(), "queries"), r"\(2, 12\)"),
    "classes": (
        lambda: given(SOFT, student=lambda: net(num_classes=2)),
        "3 .* 2",
    ),
    "one logit": (lambda: alone(SOFT), "single logit"),
    "order of blocks": (in_another_order, "block_0.*in this order"),
    "padding mask": (without_mask, "padding_mask"),
    "functions of one name": (of_one_name, "functions"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_does_not_fit_is_refused(mistake):
    call, words = MISTAKES[mistake]
    with pytest.raises(ValueError, match=words):
        call()


class Wrapped(keras.Model):
    """A subclassed model around a layer, which others may contain, too."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.head = layers.Dense(3)

    def call(self, inputs):
        return self.head(self.layer(inputs))


def on_one_layer(kind):
    """A teacher, a student on its first layer, and that layer."""
    shared = layers.Dense(4, name="shared")
    if kind == "subclassed":
        models = Wrapped(shared), Wrapped(shared)
        for model in models:
            model(np.zeros((1, 4)))
        return *models, shared
    inputs = keras.Input((4,))
    first = shared
    if kind == "nested":
        first = keras.Sequential([keras.Input((4,)), shared])
    teacher = keras.Sequential([inputs, first, layers.Dense(3)])
    if kind == "sequential":
        rest = [*teacher.layers[:1], layers.Dense(3)]
        return teacher, keras.Sequential([inputs, *rest]), shared
    source = teacher.inputs[0] if kind == "graph" else inputs
    states = teacher.layers[0].output if kind == "graph" else first(inputs)
    return teacher, keras.Model(source, layers.Dense(3)(states)), shared


@pytest.mark.parametrize(
    "kind", ["graph", "sequential", "nested", "subclassed"]
)
def test_a_student_does_not_train_its_teachers_layers(kind):
    teacher, learner, shared = on_one_layer(kind)
    with pytest.raises(ValueError, match="shared"):
        distiller(teacher, learner)
    shared.trainable = False
    model = distiller(teacher, learner)
    model.compile(keras.optimizers.SGD(0.1))
    before = [ops.convert_to_numpy(one(X)) for one in (teacher, learner)]
    model.fit(X, verbose=0)
    np.testing.assert_array_equal(teacher(X), before[0])
    after = ops.convert_to_numpy(learner(X))
    assert np.abs(after - before[1]).max() > 0
    shared.trainable = True
    with pytest.raises(ValueError, match="shared"):
        model.compile("sgd")


# Losses and metrics of labels.


class OwnLoss(keras.losses.Loss):
    """A loss of others with `from_logits`, as Keras' have it."""

    def __init__(self, from_logits=False):
        super().__init__()
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        return sparse(y_true, y_pred, from_logits=self.from_logits)


sparse = losses.sparse_categorical_crossentropy
ON_PROBABILITIES = [
    "sparse_categorical_crossentropy",
    losses.BinaryCrossentropy(),
    losses.CategoricalGeneralizedCrossEntropy(),
    losses.Dice(),
    sparse,
    functools.partial(losses.binary_crossentropy, axis=-1),
    OwnLoss(),
    {"logits": "sparse_categorical_crossentropy"},
]
ON_LOGITS = [
    cross_entropy(),
    functools.partial(sparse, from_logits=True),
    OwnLoss(from_logits=True),
    SmoothedCrossEntropy(0.1),
    lambda y_true, y_pred: cross_entropy()(y_true, y_pred),
    "mse",
    None,
]


def test_losses_on_probabilities_are_refused():
    model = distiller(hard_label_weight=1.0)
    for loss in ON_PROBABILITIES:
        with pytest.raises(ValueError, match="probabilities"):
            model.compile("adam", loss=loss)
    for loss in ON_LOGITS:
        model.compile("adam", loss=loss)


def test_a_compiled_loss_without_weight_gives_a_warning():
    model = distiller()
    with pytest.warns(UserWarning, match="hard_label_weight"):
        model.compile("adam", loss=cross_entropy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y, verbose=0)
        distiller().compile("adam")


def test_softmax_losses_over_a_single_logit_are_refused():
    model = distiller(classes=1, loss=LogitMSE(), hard_label_weight=1.0)
    categorical = (
        losses.CategoricalCrossentropy,
        losses.CategoricalFocalCrossentropy,
    )
    on_logits = [one(from_logits=True) for one in categorical]
    for loss in (cross_entropy(), SmoothedCrossEntropy(0.1), *on_logits):
        with pytest.raises(ValueError, match="softmax"):
            model.compile("adam", loss=loss)


METRICS = [  # with the student's classes, and the argument that is missing
    (lambda: "accuracy", 1, "threshold=0.0"),
    (lambda: "AUC", 1, "from_logits=True"),
    (lambda: "Recall", 1, "thresholds=0.0"),
    (lambda: "F1Score", 1, "threshold=1e-07"),
    (lambda: "BinaryCrossentropy", 1, "from_logits=True"),
    (lambda: metrics.Precision(class_id=1), 3, "thresholds=0.0"),
    (lambda: metrics.F1Score(threshold=0.5), 3, "threshold=1e-07"),
    (lambda: metrics.BinaryAccuracy(), 3, "threshold=0.0"),
    (lambda: metrics.binary_accuracy, 3, "threshold=0.0"),
    (lambda: losses.sparse_categorical_crossentropy, 3, "from_logits=True"),
    (lambda: metrics.KLDivergence(), 3, "expects probabilities"),
    (lambda: metrics.PrecisionAtRecall(0.5), 1, "expects probabilities"),
    (lambda: "accuracy", 3, None),
    (lambda: metrics.F1Score(), 3, None),
    (lambda: metrics.Precision(top_k=1, class_id=1), 3, None),
    (lambda: lambda y_true, y_pred: y_pred[:, 0], 3, None),
]


def test_metrics_of_probabilities_are_refused():
    models = {
        classes: distiller(loss=SoftBinaryCrossEntropy(), classes=classes)
        for classes in (1, 3)
    }
    for make, classes, missing in METRICS:
        measured = ["mse", make()]
        if missing is None:
            models[classes].compile("sgd", metrics=measured)
        else:
            with pytest.raises(ValueError, match=missing):
                models[classes].compile("sgd", metrics=measured)


# Data: what the first batch shows before an update.


BINARY = losses.BinaryCrossentropy(from_logits=True)
SMOOTHED = SmoothedCrossEntropy(0.1)
OF_TEACHER, OF_STUDENT = "outputs of the teacher", "outputs of the student"
NO_CLASS = np.where(Y == 1, -100, Y)
NO_SHARES = np.where(np.eye(3)[Y], -100.0, 0.0)


def on_labels(**arguments):
    return distiller(hard_label_weight=1.0, **arguments)


REFUSED = {  # a distiller, its label loss, labels, and words of the error
    "softmax of the teacher": (
        lambda: distiller(probabilities()),
        *(None, None, OF_TEACHER),
    ),
    "softmax in half precision": (
        lambda: distiller(probabilities(dtype="bfloat16")),
        *(None, None, OF_TEACHER),
    ),
    "softmax of a student on labels": (
        lambda: on_labels(student=probabilities(), loss=LogitMSE()),
        *(cross_entropy(), Y, OF_STUDENT),
    ),
    "label -100": (on_labels, cross_entropy(), NO_CLASS, "received -100"),
    "label -1": (on_labels, cross_entropy(), Y - 1, "received -1"),
    "label 3": (on_labels, cross_entropy(), Y + 1, "0 to 2, received 3"),
    "smoothed label": (on_labels, SMOOTHED, Y - 1, "0 to 2"),
    "binary label": (
        lambda: on_labels(loss=SoftBinaryCrossEntropy()),
        *(BINARY, NO_SHARES, "0 to 1"),
    ),
    "no labels": (on_labels, cross_entropy(), None, "labels"),
    "no loss": (on_labels, None, Y, "labels"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_wrong_data_are_refused_before_an_update(mistake):
    make, loss, y, words = REFUSED[mistake]
    model = make()
    model.compile("adam", loss=loss)
    before = model.student.get_weights()
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ValueError, match=words):
            model.fit(X, y, verbose=0)
        with pytest.raises(ValueError, match=words):
            model.train_on_batch(X, y)
    assert_same_weights(model.student.get_weights(), before)
    assert int(model.optimizer.iterations.value) == 0


def test_training_needs_a_trainable_weight():
    student = net()
    student.trainable = False
    model = distiller(student=student)
    model.compile("adam")
    for _ in range(2):
        with pytest.raises(ValueError, match="trainable weight"):
            model.fit(X, verbose=0)


def test_a_metric_with_the_name_of_an_objective_is_refused():
    for metric in ("logit_mse", metrics.MeanSquaredError(name="logit_mse")):
        with pytest.raises(ValueError, match="'logit_mse'"):
            distiller(loss=LogitMSE()).compile("adam", metrics=[metric])


def test_labels_that_are_ignored_do_not_count_whatever_the_batches():
    labels = np.where(np.arange(ROWS) < 7, Y, -1)
    model = on_labels()
    model.compile("sgd", loss=cross_entropy(ignore_class=-1))
    found = [
        model.evaluate(X, labels, size, verbose=0, return_dict=True)
        for size in (ROWS, 5)
    ]
    logits = ops.convert_to_numpy(model.student(X[:7]))
    expected = sparse(labels[:7], logits, from_logits=True)
    for logs in found:
        assert logs["hard_label_loss"] == pytest.approx(
            float(ops.mean(expected)), rel=1e-5
        )


def test_labels_that_the_loss_ignores_and_logits_above_0_train():
    model = on_labels(teacher=net(7, end=layers.ReLU()))
    model.compile("adam", loss=cross_entropy(ignore_class=-100))
    logs = model.fit(X, NO_CLASS, verbose=0).history
    assert np.isfinite(logs["loss"][0])


def test_values_of_a_sigmoid_that_the_graph_hides_give_a_warning_once():
    model = distiller(
        net(7, end=Hidden(ops.sigmoid)), loss=SoftBinaryCrossEntropy()
    )
    model.compile("adam")
    with pytest.warns(UserWarning, match="probabilities") as caught:
        model.fit(X, epochs=2, verbose=0)
    assert len(caught) == 1


def test_cached_outputs_are_read_before_an_update():
    inputs = keras.Input((4,), name="x")
    model = distiller(student=keras.Model({"x": inputs}, net()(inputs)))
    model.compile("adam")
    logits = np.array(model.predict({"x": X}, verbose=0))
    before = model.student.get_weights()
    exp = np.exp(logits)
    wrong = exp / exp.sum(axis=-1, keepdims=True)
    with pytest.raises(ValueError, match=OF_TEACHER):
        model.train_on_batch(
            {"x": X, taps.TEACHER_OUTPUTS: ({"logits": wrong},)}
        )
    assert_same_weights(model.student.get_weights(), before)
    model.train_on_batch({"x": X, taps.TEACHER_OUTPUTS: ({"logits": logits},)})


def test_a_new_teacher_is_looked_at_too():
    model = distiller()
    model.compile("adam")
    model.fit(X, verbose=0)
    model.attach_teacher(probabilities())
    with pytest.raises(ValueError, match=OF_TEACHER):
        model.fit(X, verbose=0)


# Models whose one output is in a dict or a list.


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_a_model_with_one_output_in_a_structure_trains_as_without(kind):
    found = []
    for structure in (kind, None):
        wrap = {
            "dict": lambda outputs: {"scores": outputs},
            "list": lambda outputs: [outputs],
        }.get(structure)
        teacher, learner = (net(wide, wrap=wrap, seed=wide) for wide in (6, 5))
        model = distiller(teacher, learner, hard_label_weight=0.5)
        loss, measured, y = cross_entropy(), ["accuracy"], Y
        if structure == "dict":  # also by the name of the output
            loss, measured, y = ({"scores": a} for a in (loss, measured, y))
        model.compile(keras.optimizers.SGD(0.1), loss, metrics=measured)
        logs = model.fit(X, y, verbose=0, shuffle=False).history
        found.append(({name: one for name, (one,) in logs.items()}, learner))
    assert found[0][0] == pytest.approx(found[1][0])
    weights = (learner.get_weights() for _, learner in found)
    assert_same_weights(*weights, atol=1e-6)
