"""Two replicas give the numbers of one device.

Their steps are traced, and those of the one device run eagerly.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import (
    ArrayExamples,
    batch,
    bert,
    cross_entropy,
    distiller,
    labels,
)
from kit.trained import classifiers, decoders

import kdkit
from kdkit import data
from kdkit.errors import UsageError
from kdkit.models import padding_row
from kdkit.training import distribution
from kdkit.training.optimizers import AdamW
from kdkit.training.stage_fit import KerasLoop, ReplicaLoop


@pytest.fixture(scope="module")
def mirrored():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def bert_distiller():
    return distiller(teacher=bert(2, 12, seed=1), student=bert(1, 8, seed=2))


def dense_distiller(hard_label_weight=0.0):
    teacher, student = (
        keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3, bias_regularizer="l2")]
        )
        for _ in range(2)
    )
    student.layers[0].bias.assign([1.0, 2.0, 3.0])
    return kdkit.Distiller(
        teacher,
        student,
        [kdkit.Objective(kdkit.losses.LogitMSE())],
        hard_label_weight,
    )


def train(strategy, build, x, y, loss=None, clipping=None, **arguments):
    """Trains for two epochs. Returns the model, the logs, the changes."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build()
        model.compile(
            # Without momentum, the change of a weight is its gradient.
            optimizer=keras.optimizers.SGD(0.01, **clipping or {}),
            loss=loss,
            metrics=["accuracy"],
            run_eagerly=strategy.num_replicas_in_sync == 1,
            jit_compile=False,
        )
    before = model.get_weights()
    history = model.fit(
        x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, **arguments
    ).history
    changes = [
        after - start
        for after, start in zip(model.get_weights(), before, strict=True)
    ]
    return model, history, changes


def assert_same_training(two, one):
    (_, logs_of_two, changes_of_two), (_, logs_of_one, changes_of_one) = (
        two,
        one,
    )
    assert_same_logs(logs_of_two, logs_of_one)
    for of_two, of_one in zip(changes_of_two, changes_of_one, strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=1e-5)
    assert max(np.abs(change).max() for change in changes_of_one) > 0.01


def assert_same_logs(of_two, of_one):
    assert sorted(of_two) == sorted(of_one)
    for name, value in of_one.items():
        # A loss less its entropy is the small difference of two sums.
        np.testing.assert_allclose(
            of_two[name], value, rtol=1e-5, atol=5e-5, err_msg=name
        )


@pytest.mark.large
@pytest.mark.parametrize(
    "how",
    ["clipnorm", "clipvalue", "global_clipnorm"],
)
def test_two_replicas_clip_what_one_device_clips(how, mirrored):
    """Not each its share of the gradient."""
    x, y = batch(8), labels(8)
    one_device = tf.distribute.get_strategy()
    plain = train(one_device, bert_distiller, x, y)
    largest = max(np.abs(change).max() for change in plain[2])
    clipping = {how: 0.3 * largest / 0.01}
    one, two = (
        train(strategy, bert_distiller, x, y, None, clipping)
        for strategy in (one_device, mirrored)
    )
    for of_two, of_one in zip(two[2], one[2], strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=1e-6)
    assert max(np.abs(change).max() for change in one[2]) < largest


@pytest.mark.large
def test_two_replicas_clip_without_the_untrained_row(mirrored):
    """Its gradient is left out before norms are taken, as on one device."""

    def after_a_step(strategy):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = distiller(
                terms=[
                    kdkit.Objective(
                        kdkit.losses.HiddenStateMSE(parity="tinybert"),
                        tap="hidden_states",
                        projection="shared",
                    )
                ]
            )
            path, row = padding_row(model.student, 0)
            model.compile(
                AdamW(
                    learning_rate=0.01,
                    clipnorm=0.01,
                    epsilon=1.0,  # so that the gradient's length shows
                    bias_correction=False,
                    untrained_rows={path: row},
                ),
                run_eagerly=strategy.num_replicas_in_sync == 1,
                jit_compile=False,
            )
        model.fit(batch(8), batch_size=8, shuffle=False, verbose=0)
        return model.student.get_weights()

    one, two = map(after_a_step, (tf.distribute.get_strategy(), mirrored))
    for of_one, of_two in zip(one, two, strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=2e-8)


def test_clipping_in_float16_is_for_one_device(mirrored):
    with mirrored.scope():
        model = bert_distiller()
        model.compile(
            keras.optimizers.LossScaleOptimizer(
                keras.optimizers.SGD(0.01, clipnorm=1.0)
            ),
            jit_compile=False,
        )
    with pytest.raises(UsageError, match="of 2 replicas cannot be clipped"):
        model.fit(batch(8), labels(8), batch_size=4, shuffle=False, verbose=0)


@pytest.mark.large
def test_two_replicas_give_one_devices_numbers(mirrored):
    """Rows of unequal length and weight, in batches that do not divide."""
    num_rows = 9  # the last batch is one row: a replica with nothing
    x, y = batch(num_rows), labels(num_rows)
    weights = {"sample_weight": np.linspace(0, 2, num_rows)}
    one, two = (
        train(strategy, bert_distiller, x, y, **weights)
        for strategy in (tf.distribute.get_strategy(), mirrored)
    )
    assert_same_training(two, one)
    assert_same_logs(
        *(
            model.evaluate(
                x, y, batch_size=4, verbose=0, return_dict=True, **weights
            )
            for model, _, _ in (two, one)
        )
    )


@pytest.mark.large
def test_two_replicas_give_one_devices_losses_of_labels_and_layers(mirrored):
    """The last batch has shares of two rows and of one."""
    x = np.random.normal(size=(7, 4)).astype("float32")
    one, two = (
        train(
            strategy,
            lambda: dense_distiller(hard_label_weight=0.5),
            x,
            labels(7),
            loss=cross_entropy(),
        )
        for strategy in (tf.distribute.get_strategy(), mirrored)
    )
    assert_same_training(two, one)
    np.testing.assert_allclose(
        two[0].predict(x, batch_size=4, verbose=0),
        one[0].predict(x, batch_size=4, verbose=0),
        atol=1e-5,
    )


@pytest.mark.large
@pytest.mark.parametrize(
    "reduction",
    ["sum_over_batch_size", "mean_with_sample_weight"],
)
def test_two_replicas_of_unequal_weights_take_logits_in_chunks(
    mirrored, reduction
):
    """Soft labels count elsewhere than labels, so no replica has its share."""
    _, teacher, objectives, (x, y, weights) = decoders()
    x, y, weights = keras.tree.map_structure(
        lambda rows: rows[:2], (x, y, weights)
    )
    x = {**x, "label_weight": np.array([0.3, 1.0], "float32")}
    weights[1, 3:] = 0.0
    found = []
    for strategy, chunk_size in (
        (tf.distribute.get_strategy(), None),
        (mirrored, 3),
    ):
        with strategy.scope():
            student, *_ = decoders()
            distiller = kdkit.Distiller(
                teacher, student, objectives, 0.6, chunk_size=chunk_size
            )
            distiller.compile(
                keras.optimizers.SGD(0.5),
                keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction=reduction
                ),
                run_eagerly=strategy.num_replicas_in_sync == 1,
                jit_compile=False,
            )
        logs = distiller.fit(
            x, y, 2, sample_weight=weights, shuffle=False, verbose=0
        ).history
        found.append((logs, student.get_weights()))
    (expected, there), (logs, here) = found
    assert_same_logs(logs, expected)
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.fixture
def two_devices(monkeypatch):
    """What a run on two devices trains on."""
    monkeypatch.setattr(
        distribution, "visible_devices", lambda: ["CPU:0", "CPU:1"]
    )
    return distribution.open_distribution("mirrored")


def train_as_runs_do(on, run_eagerly):
    """Logs and weights after batches of three rows and of one."""
    keras.utils.set_random_seed(1)  # the same projections
    with on.scope():
        student, teacher, objectives, rows = classifiers()
        model = kdkit.Distiller(teacher, student, objectives, 1.0)
        model.compile(
            keras.optimizers.SGD(0.001),
            cross_entropy(),
            run_eagerly=run_eagerly,
            jit_compile=False,
        )
        model.optimizer.build(model.trainable_variables)
    loop = ReplicaLoop(model, on) if on.strategy else KerasLoop(model)
    batches = data.BatchStream(
        ArrayExamples(rows), data.FullBatches(3), shares=on.shares
    ).evaluation()
    history = keras.callbacks.History()
    loop.fit(
        batches.repeat(),
        steps_per_epoch=2,
        initial_epoch=0,
        initial_step=0,
        running=None,
        epochs=1,
        validation_data=batches,
        callbacks=[history],
    )
    evaluated = loop.evaluate(batches)
    return history.history, evaluated, model.get_weights()


def test_two_devices_train_by_all_objectives_as_one_does(two_devices):
    """Of the last batch one device has no row."""
    two = train_as_runs_do(two_devices, run_eagerly=False)
    one = train_as_runs_do(distribution.ONE_DEVICE, run_eagerly=True)
    assert len(one[0]) > 10  # losses
    assert_same_logs(two[0], one[0])
    assert_same_logs(two[1], one[1])
    for of_two, of_one in zip(two[2], one[2], strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=1e-5)
