"""The Distiller under the features of Keras' training loop."""

import keras
import numpy as np
import pytest
from kit.backend import native, not_on_jax, not_on_torch, tensorflow_only
from kit.helpers import (
    batch,
    bert,
    cross_entropy,
    distiller,
    labels,
    objectives,
)

import kdkit
from kdkit.errors import UsageError

ROWS = 8
NAMES = ["attention_mse", "hidden_state_mse", "soft_cross_entropy"]


@pytest.fixture(scope="module")
def teacher():
    return bert(2, 12, seed=1)


def train(
    teacher,
    optimizer=None,
    terms=None,
    hard_label_weight=0.5,
    dtype=None,
    epochs=1,
    validate=False,
    callbacks=(),
    **compile_arguments,
):
    """Trains the same student on two batches. Returns it and the history."""
    keras.utils.set_random_seed(1)
    model = distiller(
        teacher=teacher,
        student=bert(1, 8, seed=2, dtype=dtype),
        terms=terms,
        hard_label_weight=hard_label_weight,
    )
    model.compile(
        optimizer=optimizer or keras.optimizers.SGD(0.01),
        loss=cross_entropy() if hard_label_weight else None,
        metrics=["accuracy"],
        **compile_arguments,
    )
    history = model.fit(
        batch(ROWS),
        labels(ROWS),
        validation_data=(batch(ROWS), labels(ROWS)) if validate else None,
        batch_size=4,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    )
    return model, history.history


@pytest.fixture(scope="module")
def eager(teacher):
    """What one epoch, step by step, comes to."""
    return train(teacher, run_eagerly=True)


@pytest.mark.parametrize(
    "compile_arguments",
    [
        pytest.param(
            {"steps_per_execution": 2}, marks=[not_on_torch, pytest.mark.large]
        ),
        pytest.param({"jit_compile": True}, marks=not_on_torch),
    ],
    ids=["steps_per_execution", "jit_compile"],
)
def test_compiled_steps_are_the_eager_ones(teacher, eager, compile_arguments):
    model, history = train(teacher, **compile_arguments)
    eager_model, eager_history = eager
    assert sorted(history) == sorted(eager_history)
    for name, values in eager_history.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4)
    for weight, eager_weight in zip(
        model.get_weights(), eager_model.get_weights(), strict=True
    ):
        np.testing.assert_allclose(weight, eager_weight, atol=1e-5)


@pytest.fixture(scope="module")
def untrained(teacher):
    """The history of an epoch without updates."""
    return train(teacher, keras.optimizers.SGD(0.0), run_eagerly=True)[1]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("mixed_float16", marks=[not_on_jax, pytest.mark.large]),
        "mixed_bfloat16",
    ],
)
def test_mixed_precision_trains_in_its_policy(teacher, untrained, policy):
    model, history = train(teacher, dtype=policy, epochs=4, run_eagerly=True)
    for name in (*NAMES, "hard_label_loss"):
        # Dynamic loss scaling leaves the first float16 steps out.
        np.testing.assert_allclose(
            history[name][0], untrained[name][0], rtol=0.2
        )
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


def test_accumulated_gradients_are_applied_every_other_step(teacher, untrained):
    optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=2)
    _, history = train(teacher, optimizer, run_eagerly=True, epochs=2)
    for name in NAMES:
        # Both batches of the first epoch saw the initial weights.
        np.testing.assert_allclose(
            history[name][0], untrained[name][0], rtol=1e-5
        )
        assert history[name][1] != history[name][0]


@pytest.mark.parametrize(
    ("make_optimizer", "decay"),
    [(keras.optimizers.SGD, None), (keras.optimizers.AdamW, 0.5)],
)
def test_moving_average_takes_weights_without_gradient(
    teacher, make_optimizer, decay
):
    """Keras overwrites all weights: the optimizer must know all of them."""
    optimizer = make_optimizer(
        0.01, use_ema=True, ema_momentum=0.5, weight_decay=decay
    )
    model, _ = train(
        teacher,
        optimizer,
        terms=objectives(include_logits=False),
        hard_label_weight=0.0,
        run_eagerly=True,
    )
    head = model.student.get_layer("logits")
    untrained = bert(1, 8, seed=2).get_layer("logits")
    for weight, before in zip(
        head.get_weights(), untrained.get_weights(), strict=True
    ):
        np.testing.assert_allclose(weight, before, rtol=1e-6)


def test_inputs_of_another_length_and_extra_features_are_taken(teacher):
    model = distiller(teacher=teacher)
    model.compile(run_eagerly=True)
    x = batch(4, length=3) | {"row": np.arange(4)}
    whole = model.evaluate(x, verbose=0, return_dict=True)
    # The same rows in longer batches: padding changes nothing.
    padded = {
        name: np.pad(tensor, [(0, 0), (0, 2)])
        for name, tensor in x.items()
        if name != "row"
    }
    longer = model.evaluate(padded, verbose=0, return_dict=True)
    for name, value in whole.items():
        np.testing.assert_allclose(longer[name], value, rtol=1e-5)


@pytest.mark.parametrize("missing", ["labels", "loss"])
def test_hard_labels_need_labels_and_a_loss(teacher, missing):
    model = distiller(teacher=teacher, hard_label_weight=0.5)
    model.compile(run_eagerly=True, loss=None if missing == "loss" else "mse")
    y = None if missing == "labels" else labels(4)
    with pytest.raises(UsageError, match="needs data with labels"):
        model.fit(batch(4), y, verbose=0)


def test_training_needs_a_trainable_weight(teacher):
    student = bert(1, 8)
    student.trainable = False
    model = distiller(
        teacher=teacher,
        student=student,
        terms=[kdkit.Objective(kdkit.losses.SoftCrossEntropy())],
    )
    model.compile(run_eagerly=True)
    with pytest.raises(ValueError, match="no gradient in any trainable weight"):
        model.fit(batch(4), verbose=0)


@tensorflow_only
def test_callbacks_read_the_objectives(teacher, tmp_path):
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
    # A fit that ended in an exception leaves TensorBoard switched off.
    with native.summary.record_if(True):
        model, history = train(
            teacher,
            epochs=5,
            validate=True,
            run_eagerly=True,
            callbacks=[
                keras.callbacks.TensorBoard(
                    tmp_path / "logs", histogram_freq=1
                ),
                keras.callbacks.CSVLogger(tmp_path / "log.csv"),
                keras.callbacks.LearningRateScheduler(
                    lambda epoch: 0.1 / (1 + epoch)
                ),
                stopping,
            ],
        )
    assert len(history["loss"]) == 2
    assert history["learning_rate"] == pytest.approx([0.1, 0.05])
    header = (tmp_path / "log.csv").read_text().splitlines()[0].split(",")
    assert {*NAMES, *(f"val_{name}" for name in NAMES)} <= set(header)
    # Back at the weights of the first epoch, the best by that measure.
    logs = model.evaluate(batch(ROWS), labels(ROWS), 4, 0, return_dict=True)
    for name in NAMES:
        np.testing.assert_allclose(
            logs[name], history[f"val_{name}"][0], rtol=1e-5
        )
    for split in ("train", "validation"):
        events = accumulators.EventAccumulator(
            str(tmp_path / "logs" / split)
        ).Reload()
        tags = events.Tags()["tensors"]
        assert {f"epoch_{name}" for name in NAMES} <= set(tags)
