"""Logits a few positions at a time: equal numbers, less memory."""

import keras
import numpy as np
import pytest
from kit.backend import not_on_torch, tensorflow_only
from kit.helpers import assert_same_weights, bert, cross_entropy, decoder

import kdkit
from kdkit import Objective, losses

BATCH, LENGTH, VOCABULARY = 3, 7, 40
PER_LABEL = {"reduction": "mean_with_sample_weight"}
ON_LOGITS = (
    Objective(losses.LogitKLDivergence(2.0), weight=0.4, name="kl"),
    Objective(losses.SoftCrossEntropy(), weight=0.3, name="soft"),
)


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


def step(
    teacher,
    batch,
    chunk_size=None,
    loss=None,
    jit_compile=None,
    family="gpt2",
    **arguments,
):
    """The logs of a step, traced with `jit_compile`, and its weights."""
    keras.utils.set_random_seed(0)
    student = decoder(2, seed=0, family=family)
    arguments = {"objectives": ON_LOGITS} | arguments
    distiller = kdkit.Distiller(
        teacher,
        student,
        hard_label_weight=0.0 if loss is None else 0.6,
        chunk_size=chunk_size,
        **arguments,
    )
    distiller.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=loss,
        jit_compile=bool(jit_compile),
        run_eagerly=jit_compile is None,
    )
    logs = distiller.train_on_batch(*batch, return_dict=True)
    return logs, student.get_weights()


CHUNKS = {
    "last of one position": (4, cross_entropy(), False),
    "more than positions": pytest.param(
        *(64, losses.SmoothedCrossEntropy(0.2, **PER_LABEL), False),
        marks=pytest.mark.large,
    ),
    "compiled": pytest.param(
        *(7, cross_entropy(**PER_LABEL), True),
        marks=[not_on_torch, pytest.mark.large],
    ),
}


@pytest.mark.parametrize(
    ("chunk_size", "loss", "jit_compile"), CHUNKS.values(), ids=CHUNKS
)
def test_a_step_in_chunks_is_the_step(
    teachers, batch, chunk_size, loss, jit_compile
):
    whole = step(teachers[0], batch, None, loss)
    found = step(teachers[0], batch, chunk_size, loss, jit_compile)
    assert found[0] == pytest.approx(whole[0], rel=1e-5)
    assert_same_weights(found[1], whole[1], atol=2e-6)


@tensorflow_only
def test_small_gradients_are_scaled_before_half_precision(teachers, batch):
    keras.utils.set_random_seed(0)
    student = kdkit.models.in_policy(decoder(2, seed=0), "mixed_float16")
    before = student.get_weights()
    small = Objective(losses.SoftCrossEntropy(), weight=1e-8)
    distiller = kdkit.Distiller(teachers[0], student, [small], chunk_size=4)
    distiller.compile(keras.optimizers.SGD(1e8), run_eagerly=True)
    distiller.train_on_batch(*batch)
    table, *_ = student.get_weights()
    assert np.abs(table - before[0]).max() > 1e-3


@tensorflow_only
def test_the_loss_is_logged_where_its_scale_overflows(teachers, batch):
    student = kdkit.models.in_policy(decoder(2, seed=0), "mixed_float16")
    distiller = kdkit.Distiller(teachers[0], student, ON_LOGITS, chunk_size=4)
    scaled = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(), initial_scale=2.0**60
    )
    distiller.compile(scaled, run_eagerly=True)
    before = student.get_weights()
    logs = distiller.train_on_batch(*batch, return_dict=True)
    assert 0 < logs["loss"] < 10
    assert_same_weights(student.get_weights(), before)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_weights_of_rows_are_those_of_their_labels(teachers, batch, chunk_size):
    x, y, _ = batch
    rows = np.array([[1], [0.5], [2]], "float32")
    loss = cross_entropy(**PER_LABEL)
    found, expected = (
        step(teachers[0], (x, y, weights), chunk_size, loss)
        for weights in (rows, np.tile(rows, LENGTH))
    )
    assert found[0] == pytest.approx(expected[0], rel=1e-5)


def test_output_embeddings_of_their_own_are_trained(teachers, batch):
    whole, found = (
        step(teachers[0], batch, chunk_size, family="llama3")
        for chunk_size in (None, 4)
    )
    assert_same_weights(found[1], whole[1], atol=2e-6)


def test_several_teachers_and_other_taps_are_next_to_it(teachers, batch):
    hidden = Objective(
        losses.HiddenStateMSE(),
        tap="hidden_states",
        layer_map={1: 1},
        projection="shared",
    )
    arguments = {"objectives": (*ON_LOGITS, hidden), "teacher_weights": [3, 1]}
    whole, found = (
        step(teachers, batch, chunk_size, **arguments)
        for chunk_size in (None, 5)
    )
    assert found[0] == pytest.approx(whole[0], rel=1e-5)


def test_a_distiller_keeps_its_chunk_size(teachers, tmp_path):
    distiller = kdkit.Distiller(
        teachers[0], decoder(1, seed=0), ON_LOGITS, chunk_size=8
    )
    distiller.save(tmp_path / "distiller.keras")
    loaded = keras.saving.load_model(tmp_path / "distiller.keras")
    assert loaded.chunk_size == 8


def test_what_cannot_be_in_chunks_is_refused(teachers, batch):
    ignoring = cross_entropy(ignore_class=0)
    encoder = bert(num_classes=VOCABULARY)
    for teacher, chunk_size, loss, words in (
        (encoder, 8, None, "decoder"),
        (teachers[0], 8, ignoring, "chunk_size"),
    ):
        with pytest.raises(ValueError, match=words):
            step(teacher, batch, chunk_size, loss)
    model = kdkit.Distiller(
        teachers[0], decoder(1), ON_LOGITS, chunk_size=8, hard_label_weight=1.0
    )
    with pytest.raises(ValueError, match="hard_label_weight"):
        model.compile("sgd", loss=cross_entropy(), loss_weights=0.1)
