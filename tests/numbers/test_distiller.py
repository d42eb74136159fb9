"""The Distiller: its numbers, its forward passes, Keras' training loop."""

import pathlib
import traceback

import keras
import numpy as np
import pytest
from kit.backend import (
    gradients_of,
    native,
    not_on_jax,
    not_on_torch,
    tensorflow_only,
)
from kit.helpers import (
    TinyBackbone,
    assert_same_weights,
    batch,
    bert,
    classifier,
    cross_entropy,
    distiller,
    labels,
    objectives,
    to_numpy,
)

import kdkit
from kdkit.taps import tapped

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 10  # two batches of 4 and one of 2
NAMES = ["attention_mse", "hidden_state_mse", "soft_cross_entropy"]
SGD = keras.optimizers.SGD


def by_hand(model, x, training=False, sample_weight=None):
    """The objectives of `distiller()` and their total, from their parts."""
    taps = ["attention_logits", "hidden_states", "logits"]
    teacher = tapped(model.teacher, taps)(x, training=False)
    student = tapped(model.student, taps)(x, training=training)
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
    soft, entropy = (
        kdkit.losses.SoftCrossEntropy()(teacher["logits"], one, sample_weight)
        for one in (student["logits"], teacher["logits"])
    )
    logits = soft - entropy
    return [attention, hidden, logits], attention + 0.5 * hidden + logits


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluate_and_predict_have_the_numbers_of_the_parts(weighted):
    model = distiller(hard_label_weight=0.5)
    student = keras.Model(model.student.input, model.student.output)
    for one in (model, student):
        one.compile(loss=cross_entropy(), metrics=["accuracy"])
    x, y = batch(ROWS), labels(ROWS)
    weights = np.linspace(0, 2, ROWS) if weighted else None

    def logs_of(one, batch_size):
        return one.evaluate(
            x, y, batch_size, 0, sample_weight=weights, return_dict=True
        )

    logs, plain = logs_of(model, 4), logs_of(student, 4)
    assert {*logs} == {*NAMES, "loss", "hard_label_loss", "accuracy"}
    values, total = to_numpy(by_hand(model, x, sample_weight=weights))
    np.testing.assert_allclose([logs[name] for name in NAMES], values, 1e-5)
    assert logs["hard_label_loss"] == pytest.approx(plain["loss"], rel=1e-5)
    assert logs["accuracy"] == plain["accuracy"]
    total += logs_of(student, ROWS)["loss"] / 2
    assert logs_of(model, ROWS)["loss"] == pytest.approx(total, rel=1e-5)
    logits = to_numpy(model.student(x, training=False))
    np.testing.assert_array_equal(model(x, training=False), logits)
    predicted = model.predict(x, batch_size=4, verbose=0)
    np.testing.assert_allclose(predicted, logits, atol=1e-5)


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_metrics_without_labels_are_warned_of(method):
    model = distiller()
    model.compile(SGD(), metrics=["accuracy"])
    with pytest.warns(UserWarning, match="no labels"):
        getattr(model, method)(batch(), verbose=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_update_follows_the_gradient_of_the_total_loss(weighted):
    model = distiller()
    x = batch(ROWS)
    weights = np.linspace(0, 2, ROWS, dtype="float32") if weighted else None
    variables = model.trainable_variables
    gradients = gradients_of(
        lambda: by_hand(model, x, True, weights)[1], variables
    )
    expected = [
        keras.ops.convert_to_numpy(variable) - 0.1 * gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
    model.compile(SGD(0.1))
    # Keras drops sample weights that come without labels.
    model.fit(x, labels(ROWS), ROWS, verbose=0, sample_weight=weights)
    assert_same_weights(variables, expected, atol=1e-5)


def test_teacher_is_neither_trained_nor_tracked():
    model = distiller(hard_label_weight=1.0)
    teacher = model.teacher
    before = teacher.get_weights()
    model.compile(keras.optimizers.Adam(0.1), cross_entropy())
    model.fit(batch(ROWS), labels(ROWS), verbose=0)
    assert_same_weights(teacher.get_weights(), before)
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
    with native.GradientTape() as tape:
        outputs = model.run_teachers(batch(ROWS))
        total = sum(map(native.reduce_sum, keras.tree.flatten(outputs)))
    gradients = tape.gradient(total, model.teacher.trainable_variables)
    assert all(gradient is None for gradient in gradients)


@not_on_jax
@pytest.mark.parametrize(
    "run_eagerly", [True, pytest.param(False, marks=pytest.mark.large)]
)
def test_each_step_runs_each_model_once(run_eagerly):
    losses, objective = kdkit.losses, kdkit.Objective
    all_taps = [
        objective(losses.SoftCrossEntropy()),
        objective(losses.EmbeddingMSE(), tap="embedding_output"),
        objective(losses.HiddenStateMSE(), tap="hidden_states"),
        objective(losses.PatienceMSE(), tap="cls_states"),
        objective(losses.AttentionMSE(), tap="attention_logits"),
        objective(losses.AttentionMSE(), tap="attention_probs", name="probs"),
        *(
            objective(losses.RelationKLDivergence(2), tap=tap, name=tap)
            for tap in ("queries", "keys", "values")
        ),
    ]
    teacher, student = TinyBackbone(2), TinyBackbone(1)
    model = kdkit.Distiller(classifier(teacher), classifier(student), all_taps)
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


class Framed(kdkit.losses.LogitMSE):
    """Notes the functions of kdkit that lead to its equation."""

    def call(self, teacher, student):
        ours = pathlib.Path(kdkit.__file__).parent
        stack = traceback.extract_stack()
        self.names = [
            f.name for f in stack if ours in pathlib.Path(f[0]).parents
        ]
        return super().call(teacher, student)


@tensorflow_only
def test_six_functions_lead_from_keras_loop_to_the_equation():
    model = distiller(terms=[kdkit.Objective(Framed())])
    model.compile()
    model.fit(batch(ROWS), verbose=0)
    functions = ["sums", "sums", "weighted_sums"]  # and `call`
    expected = ["fit", "train_step", "run_student", *functions]
    assert model.objectives[0].loss.names == expected


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1),
        lambda: SGD(0.01, use_ema=True, ema_momentum=0.5),
        lambda: keras.optimizers.AdamW(
            0.01, use_ema=True, ema_momentum=0.5, weight_decay=0.5
        ),
    ],
    ids=["decay", "average", "average and decay"],
)
def test_head_stays_as_it_is_without_an_objective_on_logits(optimizer):
    """Keras' averages overwrite all weights, so they must know all of them."""
    model = distiller(terms=objectives(include_logits=False))
    model.compile(optimizer())
    head = model.student.get_layer("logits")
    block = model.student.backbone.transformer_layers[0]
    before, block_before = head.get_weights(), block.get_weights()
    model.fit(batch(ROWS), batch_size=4, verbose=0)
    assert_same_weights(head.get_weights(), before, atol=1e-6)
    assert not np.allclose(block.get_weights()[0], block_before[0], atol=1e-4)


def test_weights_of_zero_everywhere_change_nothing():
    model = distiller(hard_label_weight=1.0)
    model.compile(SGD(1.0), cross_entropy())
    before = model.get_weights()
    history = model.fit(
        batch(ROWS), labels(ROWS), sample_weight=np.zeros(ROWS), verbose=0
    )
    assert {values[-1] for values in history.history.values()} == {0.0}
    assert_same_weights(model.get_weights(), before)


class AddsLoss(keras.layers.Layer):
    """Adds the mean of its inputs in training, and twice that otherwise."""

    def call(self, inputs, training=False):
        self.add_loss(keras.ops.mean(inputs) * (1.0 if training else 2.0))
        return inputs


def test_losses_of_layers_count_by_example_and_only_the_students():
    def build(width):
        inputs = keras.Input((4,))
        states = AddsLoss()(keras.layers.Dense(width)(inputs))
        penalty = keras.regularizers.L2(1.0)
        logits = keras.layers.Dense(3, bias_regularizer=penalty)(states)
        model = keras.Model(inputs, logits)
        model.layers[-1].bias.assign([1.0, 1.0, 1.0])  # a penalty of 3
        return model

    model = kdkit.Distiller(
        build(6), build(5), kdkit.Objective(kdkit.losses.LogitMSE())
    )
    model.compile(SGD(0.0))
    x = np.random.normal(size=(8, 4)).astype("float32")
    states = keras.ops.convert_to_numpy(model.student.layers[1](x))
    added = float(np.mean(states))
    given = {"batch_size": 3, "verbose": 0}  # the last batch has two rows
    history = model.fit(x, **given).history
    logs = model.evaluate(x, return_dict=True, **given)
    value = logs["logit_mse"]
    assert history["logit_mse"] == pytest.approx([value], rel=1e-5)
    assert history["loss"] == pytest.approx([value + 3 + added], rel=1e-5)
    assert logs["loss"] == pytest.approx(value + 3 + 2 * added, rel=1e-5)


def train(optimizer=None, dtype=None, epochs=1, callbacks=(), **compiled):
    """Trains the same student on two batches. Returns it and the history."""
    keras.utils.set_random_seed(1)
    model = distiller(
        student=bert(1, 8, seed=2, dtype=dtype), hard_label_weight=0.5
    )
    model.compile(
        optimizer or SGD(0.01),
        cross_entropy(),
        metrics=["accuracy"],
        **compiled,
    )
    history = model.fit(
        batch(8),
        labels(8),
        batch_size=4,
        epochs=epochs,
        validation_data=(batch(8), labels(8)) if callbacks else None,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    )
    return model, history.history


@pytest.fixture(scope="module")
def untrained():
    """The history of an epoch without updates."""
    return train(SGD(0.0), run_eagerly=True)[1]


@not_on_torch
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"steps_per_execution": 2}, marks=pytest.mark.large),
        {"jit_compile": True},
    ],
    ids=["steps_per_execution", "jit_compile"],
)
def test_compiled_steps_are_the_eager_ones(options):
    eager, expected = train(epochs=2)
    model, history = train(epochs=2, run_eagerly=False, **options)
    assert {*history} == {*expected}
    for name, values in expected.items():
        assert history[name] == pytest.approx(values, rel=1e-4)
    assert_same_weights(model.get_weights(), eager.get_weights(), atol=1e-5)


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("mixed_float16", marks=[not_on_jax, pytest.mark.large]),
        "mixed_bfloat16",
    ],
)
def test_mixed_precision_trains_in_its_policy(untrained, policy):
    model, history = train(dtype=policy, epochs=4)
    for name in (*NAMES, "hard_label_loss"):
        # Dynamic loss scaling leaves the first float16 steps out.
        assert history[name][0] == pytest.approx(untrained[name][0], rel=0.2)
    assert history["loss"][-1] < untrained["loss"][0]
    (projection,) = model.projections
    assert projection.compute_dtype == policy.removeprefix("mixed_")
    for weight in model.trainable_weights:
        assert weight.dtype == "float32"
        assert np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    # Keras scales the loss for float16 alone.
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (
        policy == "mixed_float16"
    )


def test_accumulated_gradients_are_applied_every_other_step(untrained):
    _, history = train(SGD(0.01, gradient_accumulation_steps=2), epochs=2)
    for name in NAMES:
        first, second = history[name]
        # Both batches of the first epoch saw the initial weights.
        assert first == pytest.approx(untrained[name][0], rel=1e-5)
        assert second != first


def test_inputs_of_another_length_and_extra_features_are_taken():
    model = distiller()
    model.compile()
    x = batch(4, length=3)
    # The same rows in longer batches: padding changes nothing.
    padded = {
        name: np.pad(tensor, [(0, 0), (0, 2)]) for name, tensor in x.items()
    }
    whole, longer = (
        model.evaluate(one, verbose=0, return_dict=True)
        for one in (x | {"row": np.arange(4)}, padded)
    )
    assert longer == pytest.approx(whole, rel=1e-5)


@tensorflow_only
def test_callbacks_read_the_objectives(tmp_path):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_soft_cross_entropy",
        mode="min",
        min_delta=1e9,  # nothing is good enough
        patience=1,
        restore_best_weights=True,
    )
    schedule = keras.callbacks.LearningRateScheduler(
        lambda epoch: 0.1 / (1 + epoch)
    )
    board = keras.callbacks.TensorBoard(tmp_path / "logs", histogram_freq=1)
    table = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    # A fit that ended in an exception leaves TensorBoard switched off.
    with native.summary.record_if(True):
        model, history = train(
            epochs=5, callbacks=[board, table, schedule, stopping]
        )
    assert len(history["loss"]) == 2
    assert history["learning_rate"] == pytest.approx([0.1, 0.05])
    header = (tmp_path / "log.csv").read_text().splitlines()[0].split(",")
    assert {*NAMES, *(f"val_{name}" for name in NAMES)} <= set(header)
    # Back at the weights of the first epoch, the best by that measure.
    logs = model.evaluate(batch(8), labels(8), 4, 0, return_dict=True)
    for name in NAMES:
        assert logs[name] == pytest.approx(history[f"val_{name}"][0], rel=1e-5)
    for split in ("train", "validation"):
        place = str(tmp_path / "logs" / split)
        tags = accumulators.EventAccumulator(place).Reload().Tags()["tensors"]
        assert {f"epoch_{name}" for name in NAMES} <= set(tags)
