"""Runs on several devices have the numbers of runs on one.

Steps of several devices are traced, and those of one run eagerly.
"""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.adapter import command, resolved
from kit.comparing import assert_same_numbers, assert_same_run
from kit.helpers import (
    ON_TASKS,
    as_users,
    batch,
    bert,
    cross_entropy,
    distiller,
    labels,
)
from kit.trained import decoders

import kdkit

ONE_DEVICE = tf.distribute.get_strategy()


@pytest.fixture(scope="module")
def mirrored():
    return tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()
    )


def bert_distiller():
    return distiller(teacher=bert(2, 12, seed=1), student=bert(1, 8, seed=2))


def dense_distiller():
    """A student with a loss of its own layer."""
    teacher, student = (
        keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(3, bias_regularizer="l2")]
        )
        for _ in range(2)
    )
    student.layers[0].bias.assign([1.0, 2.0, 3.0])
    objective = kdkit.Objective(kdkit.losses.LogitMSE())
    return kdkit.Distiller(teacher, student, [objective], 0.5)


def train(strategy, build, rows, loss=None, whole_logits=True, **clipping):
    """Trains for two epochs. Returns the model, the logs, the changes."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build()
        model.compile(
            # Without momentum, the change of a weight is its gradient.
            optimizer=keras.optimizers.SGD(0.01, **clipping),
            loss=loss,
            metrics=["accuracy"] if whole_logits else None,
            run_eagerly=strategy is ONE_DEVICE,
            jit_compile=False,
        )
    before = model.get_weights()
    history = model.fit(
        *rows[:2],
        batch_size=4 if whole_logits else 2,
        epochs=2,
        sample_weight=rows[2] if len(rows) > 2 else None,
        shuffle=False,
        verbose=0,
    ).history
    changes = [
        after - start
        for after, start in zip(model.get_weights(), before, strict=True)
    ]
    return model, history, changes


def assert_same_logs(of_two, of_one):
    assert sorted(of_two) == sorted(of_one)
    for name, value in of_one.items():
        # A loss less its entropy is the small difference of two sums.
        np.testing.assert_allclose(
            of_two[name], value, rtol=1e-5, atol=5e-5, err_msg=name
        )


def assert_same_training(two, one, atol=1e-5, least=0.01):
    assert_same_logs(two[1], one[1])
    for of_two, of_one in zip(two[2], one[2], strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=atol)
    assert max(np.abs(change).max() for change in one[2]) > least


def test_two_devices_give_one_devices_losses_of_labels_and_layers(mirrored):
    """The last batch has shares of two rows and of one."""
    x = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
    one, two = (
        train(strategy, dense_distiller, (x, labels(7)), cross_entropy())
        for strategy in (ONE_DEVICE, mirrored)
    )
    assert_same_training(two, one)
    np.testing.assert_allclose(
        *(
            model.predict(x, batch_size=4, verbose=0)
            for model, *_ in (two, one)
        ),
        atol=1e-5,
    )


def test_clipping_in_float16_is_for_one_device(mirrored):
    with mirrored.scope():
        model = dense_distiller()
        optimizer = keras.optimizers.SGD(0.01, clipnorm=1.0)
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        model.compile(optimizer, cross_entropy(), jit_compile=False)
    with pytest.raises(ValueError, match="2 replicas"):
        model.fit(np.ones((4, 4)), labels(4), shuffle=False, verbose=0)


@pytest.mark.large
def test_two_devices_give_one_devices_numbers_of_weighted_rows(mirrored):
    """The last batch is one row: a device with nothing."""
    rows = batch(9), labels(9), np.linspace(0, 2, 9)
    one, two = (
        train(strategy, bert_distiller, rows)
        for strategy in (ONE_DEVICE, mirrored)
    )
    assert_same_training(two, one)
    x, y, weights = rows
    assert_same_logs(
        *(
            model.evaluate(x, y, 4, 0, sample_weight=weights, return_dict=True)
            for model, *_ in (two, one)
        )
    )


@pytest.mark.large
@pytest.mark.parametrize("how", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_two_devices_clip_what_one_device_clips(how, mirrored):
    """Not each its share of the gradient."""
    rows = batch(8), labels(8)
    *_, plain = train(ONE_DEVICE, bert_distiller, rows)
    largest = max(np.abs(change).max() for change in plain)
    one, two = (
        train(strategy, bert_distiller, rows, **{how: 0.3 * largest / 0.01})
        for strategy in (ONE_DEVICE, mirrored)
    )
    assert_same_training(two, one, atol=1e-6, least=0)
    assert max(np.abs(change).max() for change in one[2]) < largest


@pytest.mark.large
@pytest.mark.parametrize(
    "reduction", ["sum_over_batch_size", "mean_with_sample_weight"]
)
def test_two_devices_of_unequal_weights_take_logits_in_chunks(
    mirrored, reduction
):
    """Soft labels count elsewhere than labels, so no device has its share."""
    _, teacher, objectives, (x, y, weights) = decoders()
    x, y, weights = keras.tree.map_structure(
        lambda rows: rows[:2], (x, y, weights)
    )
    x = {**x, "label_weight": np.array([0.3, 1.0], "float32")}
    weights[1, 3:] = 0.0
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=reduction
    )
    one, two = (
        train(
            strategy,
            lambda chunk_size=chunk_size: kdkit.Distiller(
                teacher, decoders()[0], objectives, 0.6, chunk_size=chunk_size
            ),
            (x, y, weights),
            loss,
            whole_logits=False,
        )
        for strategy, chunk_size in ((ONE_DEVICE, None), (mirrored, 3))
    )
    assert_same_training(two, one, atol=2e-6, least=1e-3)


# Batches of 8, 8 and 3 rows: on four devices shares of 0 and 1 of the last.
ROWS = ("--set", "data.max_train_rows=19")
TEXTS = (
    *("--set", "corpus.max_texts=60"),
    *("--set", "corpus.held_out_every=5"),
)


def run(words, path, *more):
    """Runs a command in batches of 8."""
    words = [*words, "--smoke", "--run-dir", path, *more]
    for name in resolved(words)["stages"]:
        words += ["--set", f"stages.{name}.batch_size=8"]
        words += ["--set", f"stages.{name}.keep_best=false"]
    answer = command(words)
    assert answer.status == 0, answer.err
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on one device: of labels, and of text."""
    folder = tmp_path_factory.mktemp("one")
    teacher = run(["train-teacher", *ROWS], folder / "teacher")
    return teacher, run(["pretrain", *TEXTS], folder / "pretrained")


on_four = ("--strategy", "mirrored")


@pytest.mark.large
@pytest.mark.usefixtures("quick_runs")
def test_labels_and_text_on_four_devices_are_those_on_one(runs, tmp_path):
    """The masks are those of whole batches, whoever reads them."""
    teacher, pretrained = runs
    words = ["train-teacher", *ROWS, *on_four]
    assert_same_run(run(words, tmp_path / "teacher"), teacher)
    words = ["pretrain", *TEXTS, *on_four]
    assert_same_numbers(run(words, tmp_path / "text"), pretrained)


@pytest.mark.large
@pytest.mark.usefixtures("quick_runs")
@pytest.mark.parametrize("recipe", ON_TASKS)
def test_a_recipe_on_four_devices_is_that_on_one(recipe, runs, tmp_path):
    teacher, pretrained = runs
    words = ["distill", recipe, *ROWS, "--set", f"teacher={teacher}"]
    settings = resolved([*words, "--smoke", "--run-dir", "unused"])
    if settings["pretrained"] is not None:
        words += ["--set", f"pretrained={pretrained}"]
    if settings["corpus"] is not None:
        words += TEXTS
    is_lstm = recipe == "distilled_bilstm"
    # Keras' LSTM takes a share without rows in traced steps alone.
    with as_users() if is_lstm else contextlib.nullcontext():
        one = run(words, tmp_path / "one")
        four = run(words, tmp_path / "four", *on_four)
    assert_same_run(four, one)


@pytest.mark.large
@pytest.mark.usefixtures("quick_runs")
@pytest.mark.parametrize(
    "recipe", ["sentence_embedding", "static_embedding", "multilingual"]
)
def test_a_sentence_encoder_on_four_devices_has_the_numbers_of_one(
    recipe, runs, tmp_path
):
    words = ["distill", recipe, "--set", f"teacher={runs[1]}"]
    words += ["--set", "data.max_texts=60"]
    one = run(words, tmp_path / "one")
    assert_same_numbers(run(words, tmp_path / "four", *on_four), one)
