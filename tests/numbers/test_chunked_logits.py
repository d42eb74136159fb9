"""Logits a few positions at a time: equal numbers, less memory."""

import keras
import numpy as np
import pytest
from kit.backend import not_on_torch
from kit.helpers import bert, decoder

import kdkit
from kdkit.distillation import Objective
from kdkit.errors import UsageError
from kdkit.losses import (
    HiddenStateMSE,
    LogitKLDivergence,
    SmoothedCrossEntropy,
    SoftCrossEntropy,
)

BATCH, LENGTH, VOCABULARY = 3, 7, 40


@pytest.fixture(scope="module")
def teachers():
    return [decoder(2, seed=1, hidden_dim=8), decoder(1, seed=2)]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype("int32")
    weights = np.ones((BATCH, LENGTH), "float32")
    weights[1, 4:] = 0.0
    weights[2] = 0.5
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    return x, ids[:, 1:], weights


def on_logits():
    return [
        Objective(LogitKLDivergence(2.0), weight=0.4, name="kl"),
        Objective(SoftCrossEntropy(), weight=0.3, name="soft"),
    ]


def step(
    teacher,
    objectives,
    batch,
    chunk_size,
    reduction,
    jit_compile=None,
    label_smoothing=None,
    **arguments,
):
    """The logs of a step and the weights that it leaves.

    Without `jit_compile`, the step is not traced.
    """
    keras.utils.set_random_seed(0)
    student = decoder(2, seed=0)
    distiller = kdkit.Distiller(
        teacher, student, objectives, chunk_size=chunk_size, **arguments
    )
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=reduction
    )
    if label_smoothing is not None:
        loss = SmoothedCrossEntropy(label_smoothing, reduction)
    distiller.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=loss if distiller.hard_label_weight else None,
        jit_compile=bool(jit_compile),
        run_eagerly=jit_compile is None,
    )
    logs = distiller.train_on_batch(*batch, return_dict=True)
    return logs, student.get_weights()


@pytest.mark.parametrize(
    ("chunk_size", "reduction", "jit_compile", "label_smoothing"),
    [
        # the last chunk has one position
        (4, "sum_over_batch_size", False, None),
        # more than there are
        pytest.param(
            *(64, "mean_with_sample_weight", False, 0.2),
            marks=pytest.mark.large,
        ),
        pytest.param(
            *(7, "mean_with_sample_weight", True, None),
            marks=[not_on_torch, pytest.mark.large],
        ),
    ],
)
def test_a_step_in_chunks_is_the_step(
    teachers, batch, chunk_size, reduction, jit_compile, label_smoothing
):
    arguments = {"hard_label_weight": 0.6, "label_smoothing": label_smoothing}
    expected = step(
        teachers[0], on_logits(), batch, None, reduction, **arguments
    )
    arguments["jit_compile"] = jit_compile
    found = step(
        teachers[0], on_logits(), batch, chunk_size, reduction, **arguments
    )
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_weights_of_rows_are_those_of_their_labels(teachers, batch, chunk_size):
    x, y, _ = batch
    rows = np.array([1, 0.5, 2], "float32")
    logs = [
        step(
            teachers[0],
            on_logits(),
            (x, y, weights),
            chunk_size,
            "mean_with_sample_weight",
            hard_label_weight=0.5,
        )[0]
        for weights in (
            rows[:, None],
            np.repeat(rows[:, None], y.shape[1], axis=1),
        )
    ]
    for name, value in logs[1].items():
        np.testing.assert_allclose(logs[0][name], value, rtol=1e-5)


def test_several_teachers_and_other_taps_stand_beside_it(teachers, batch):
    objectives = [
        *on_logits(),
        Objective(
            HiddenStateMSE(),
            tap="hidden_states",
            layer_map={1: 1},
            projection="shared",
        ),
    ]
    arguments = {"hard_label_weight": 0.0, "teacher_weights": [3, 1]}
    logs = [
        step(teachers, objectives, batch, chunk_size, "mean", **arguments)[0]
        for chunk_size in (None, 5)
    ]
    assert logs[1] == pytest.approx(logs[0], rel=1e-5)


def test_a_distiller_keeps_its_chunk_size(teachers, tmp_path):
    distiller = kdkit.Distiller(
        teachers[0], decoder(1, seed=0), on_logits(), chunk_size=8
    )
    distiller.save(tmp_path / "distiller.keras")
    loaded = keras.saving.load_model(tmp_path / "distiller.keras")
    assert loaded.chunk_size == 8


def test_what_cannot_be_in_chunks_is_refused(teachers, batch):
    student = decoder(1, seed=0)
    with pytest.raises(UsageError, match="chunk_size above 0"):
        kdkit.Distiller(teachers[0], student, on_logits(), chunk_size=0)
    with pytest.raises(UsageError, match="Only a decoder"):
        kdkit.Distiller(
            bert(num_classes=VOCABULARY), student, on_logits(), chunk_size=8
        )
    distiller = kdkit.Distiller(
        teachers[0], student, on_logits(), 1.0, chunk_size=8
    )
    loss = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=0)
    distiller.compile(loss=loss, run_eagerly=True)
    with pytest.raises(UsageError, match="With chunk_size the loss must be"):
        distiller.train_on_batch(*batch)
