"""The Distiller: its numbers, its forward passes, and a frozen teacher."""

import keras
import numpy as np
import pytest
from kit.backend import gradients_of, native, not_on_jax, tensorflow_only
from kit.helpers import (
    TinyBackbone,
    batch,
    classifier,
    cross_entropy,
    distiller,
    labels,
    objectives,
    to_numpy,
)

import kdkit
from kdkit.taps import tapped

ROWS = 10  # two batches of 4 and one of 2
NAMES = ["attention_mse", "hidden_state_mse", "soft_cross_entropy"]


def by_hand(model, x, training=False, sample_weight=None):
    """The objectives of `distiller()` and their total, from their parts."""
    teacher = tapped(
        model.teacher, ["attention_logits", "hidden_states", "logits"]
    )(x, training=False)
    student = tapped(
        model.student, ["attention_logits", "hidden_states", "logits"]
    )(x, training=training)
    (projection,) = model.projections
    weights = x["padding_mask"].astype("float32")
    if sample_weight is not None:
        weights = weights * sample_weight[:, None]
    attention = kdkit.losses.AttentionMSE()(
        teacher["attention_logits"][1], student["attention_logits"][0], weights
    )
    hidden = sum(
        kdkit.losses.HiddenStateMSE()(
            teacher["hidden_states"][of_teacher],
            projection(student["hidden_states"][of_student]),
            weights,
        )
        for of_student, of_teacher in ((0, 0), (1, 2))
    )
    logits = kdkit.losses.SoftCrossEntropy()(
        teacher["logits"], student["logits"], sample_weight
    ) - kdkit.losses.SoftCrossEntropy()(
        teacher["logits"], teacher["logits"], sample_weight
    )
    return [attention, hidden, logits], attention + 0.5 * hidden + logits


@pytest.fixture(scope="module")
def model():
    """A distiller that only evaluates, with labels at half weight."""
    model = distiller(hard_label_weight=0.5)
    model.compile(loss=cross_entropy(), metrics=["accuracy"], run_eagerly=True)
    return model


@pytest.mark.parametrize("weighted", [False, True])
def test_logged_objectives_are_masked_means_over_the_epoch(model, weighted):
    x, y = batch(ROWS), labels(ROWS)
    sample_weight = np.linspace(0, 2, ROWS) if weighted else None
    logs = model.evaluate(
        x,
        y,
        sample_weight=sample_weight,
        batch_size=4,
        verbose=0,
        return_dict=True,
    )
    assert sorted(logs) == sorted(
        [*NAMES, "loss", "hard_label_loss", "accuracy"]
    )
    values, _ = to_numpy(by_hand(model, x, sample_weight=sample_weight))
    np.testing.assert_allclose([logs[name] for name in NAMES], values, 1e-5)


def test_loss_of_a_batch_is_the_weighted_sum_of_its_terms(model):
    x, y = batch(ROWS), labels(ROWS)
    logs = model.evaluate(x, y, batch_size=ROWS, verbose=0, return_dict=True)
    _, total = to_numpy(by_hand(model, x))
    label_loss = to_numpy(cross_entropy()(y, model.student(x, training=False)))
    np.testing.assert_allclose(logs["hard_label_loss"], label_loss, 1e-5)
    np.testing.assert_allclose(logs["loss"], total + label_loss / 2, 1e-5)


def test_hard_label_loss_is_what_keras_reports_for_the_student(model):
    x, y = batch(ROWS), labels(ROWS)
    arguments = {
        "sample_weight": np.linspace(0, 2, ROWS),
        "batch_size": 4,
        "verbose": 0,
        "return_dict": True,
    }
    student = keras.Model(model.student.input, model.student.output)
    student.compile(
        loss=cross_entropy(), metrics=["accuracy"], run_eagerly=True
    )
    plain = student.evaluate(x, y, **arguments)
    logs = model.evaluate(x, y, **arguments)
    np.testing.assert_allclose(logs["hard_label_loss"], plain["loss"], 1e-5)
    assert logs["accuracy"] == plain["accuracy"]


def test_predict_and_call_give_the_students_logits(model):
    x = batch(ROWS)
    logits = to_numpy(model.student(x, training=False))
    np.testing.assert_allclose(
        model.predict(x, batch_size=4, verbose=0), logits, atol=1e-5
    )
    np.testing.assert_array_equal(model(x, training=False), logits)


@pytest.mark.parametrize("weighted", [False, True])
def test_update_follows_the_gradient_of_the_total_loss(weighted):
    model = distiller()
    x = batch(ROWS)
    sample_weight = np.linspace(0, 2, ROWS, dtype="float32")
    if not weighted:
        sample_weight = None
    variables = model.trainable_variables
    gradients = gradients_of(
        lambda: by_hand(model, x, True, sample_weight)[1], variables
    )
    expected = [
        keras.ops.convert_to_numpy(variable) - 0.1 * gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
    model.compile(optimizer=keras.optimizers.SGD(0.1), run_eagerly=True)
    # Keras drops sample weights that come without labels.
    model.fit(
        x,
        labels(ROWS),
        sample_weight=sample_weight,
        batch_size=ROWS,
        verbose=0,
    )
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable, value, atol=1e-5)


def test_teacher_is_neither_trained_nor_tracked():
    model = distiller(hard_label_weight=1.0)
    teacher = model.teacher
    before = teacher.get_weights()
    model.compile(
        optimizer=keras.optimizers.Adam(0.1),
        loss=cross_entropy(),
        run_eagerly=True,
    )
    model.fit(batch(ROWS), labels(ROWS), verbose=0)
    keras.tree.map_structure(
        np.testing.assert_array_equal, teacher.get_weights(), before
    )
    own = [*model.student.weights, *model.projections[0].weights]
    trained = {id(weight) for weight in model.weights}
    assert {id(weight) for weight in own} <= trained
    assert not trained & {id(weight) for weight in teacher.weights}
    # Adam: two slots per weight, the iterations and the learning rate.
    assert len(model.optimizer.variables) == 2 * len(own) + 2
    assert teacher.trainable


@tensorflow_only
def test_teacher_outputs_carry_no_gradient():
    """Also if teacher and tape meet, as in a user's own training loop."""
    model = distiller()
    x = batch(ROWS)
    with native.GradientTape() as tape:
        outputs = model._hidden.teachers(x)
        total = sum(
            native.reduce_sum(tensor) for tensor in keras.tree.flatten(outputs)
        )
    gradients = tape.gradient(total, model.teacher.trainable_variables)
    assert all(gradient is None for gradient in gradients)


ALL_TAPS = [
    kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
    kdkit.Objective(kdkit.losses.EmbeddingMSE(), tap="embedding_output"),
    kdkit.Objective(kdkit.losses.HiddenStateMSE(), tap="hidden_states"),
    kdkit.Objective(kdkit.losses.PatienceMSE(), tap="cls_states"),
    kdkit.Objective(kdkit.losses.AttentionMSE(), tap="attention_logits"),
    kdkit.Objective(
        kdkit.losses.AttentionMSE(), tap="attention_probs", name="probabilities"
    ),
    *(
        kdkit.Objective(kdkit.losses.RelationKLDivergence(2), tap=tap, name=tap)
        for tap in ("queries", "keys", "values")
    ),
]


@not_on_jax
@pytest.mark.parametrize("run_eagerly", [True, False])
def test_each_step_runs_each_model_once(run_eagerly):
    teacher, student = TinyBackbone(2), TinyBackbone(1)
    model = kdkit.Distiller(classifier(teacher), classifier(student), ALL_TAPS)
    model.compile(run_eagerly=run_eagerly)
    x = batch(ROWS)
    del x["segment_ids"]

    def counted(method):
        before = np.array(teacher.counts()[:1] + student.counts())
        method(x, batch_size=5, verbose=0)
        after = np.array([teacher.counts()[0], *student.counts()])
        assert teacher.counts()[0] == teacher.counts()[1]
        return (after - before).tolist()

    # (forward passes, of them in training mode) of teacher and student
    assert counted(model.fit) == [[2, 0], [2, 2]]
    assert counted(model.evaluate) == [[2, 0], [2, 0]]
    assert counted(model.predict) == [[0, 0], [2, 0]]


def test_head_stays_as_it_is_without_an_objective_on_logits():
    model = distiller(terms=objectives(include_logits=False))
    model.compile(
        optimizer=keras.optimizers.AdamW(0.1, weight_decay=0.1),
        run_eagerly=True,
    )
    head = model.student.get_layer("logits")
    block = model.student.backbone.transformer_layers[0]
    before = head.get_weights()
    block_before = block.get_weights()
    model.fit(batch(ROWS), verbose=0)
    keras.tree.map_structure(
        np.testing.assert_array_equal, head.get_weights(), before
    )
    assert not np.allclose(block.get_weights()[0], block_before[0])


def test_weights_of_zero_everywhere_change_nothing():
    model = distiller(hard_label_weight=1.0)
    model.compile(
        optimizer=keras.optimizers.SGD(1.0),
        loss=cross_entropy(),
        run_eagerly=True,
    )
    before = model.get_weights()
    history = model.fit(
        batch(ROWS), labels(ROWS), sample_weight=np.zeros(ROWS), verbose=0
    )
    assert {values[-1] for values in history.history.values()} == {0.0}
    keras.tree.map_structure(
        np.testing.assert_array_equal, model.get_weights(), before
    )


@keras.saving.register_keras_serializable(package="kdkit_tests")
class AddsLoss(keras.layers.Layer):
    """Adds a loss of 1 in training and of 2 in inference."""

    def call(self, inputs, training=False):
        self.add_loss(keras.ops.sum(inputs) * 0 + (1.0 if training else 2.0))
        return inputs


def test_losses_of_layers_count_once_and_only_the_students():
    def build(width):
        inputs = keras.Input((4,))
        states = AddsLoss()(keras.layers.Dense(width)(inputs))
        return keras.Model(
            inputs,
            keras.layers.Dense(3, bias_regularizer=keras.regularizers.L2(1.0))(
                states
            ),
        )

    teacher, student = build(6), build(5)
    for model in (teacher, student):
        model.layers[-1].bias.assign([1.0, 1.0, 1.0])  # a penalty of 3
    model = kdkit.Distiller(
        teacher, student, [kdkit.Objective(kdkit.losses.LogitMSE())]
    )
    model.compile(optimizer=keras.optimizers.SGD(0.0), run_eagerly=True)
    x = np.random.normal(size=(8, 4)).astype("float32")
    history = model.fit(x, batch_size=2, verbose=0).history
    logs = model.evaluate(x, batch_size=2, verbose=0, return_dict=True)
    value = logs["logit_mse"]
    np.testing.assert_allclose(history["logit_mse"], value, rtol=1e-5)
    np.testing.assert_allclose(history["loss"], value + 3 + 1, rtol=1e-5)
    np.testing.assert_allclose(logs["loss"], value + 3 + 2, rtol=1e-5)
