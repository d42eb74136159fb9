"""The logs: means over all that counts in an epoch, whatever its batches."""

import keras
import numpy as np
import pytest
from keras import ops
from kit.helpers import (
    LENGTH,
    batch,
    batch_logs,
    bert,
    cross_entropy,
    decoder,
    distiller,
    divergence,
    labels,
    log_softmax,
    softmax,
    spread_weights,
)

import kdkit
from kdkit import losses

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 8
LABELED = np.array([1, 0, 1, 0], "float32")
REAL = 4  # tokens of a row; the others are padding
# Per position, one of them of padding.
WEIGHTS = np.array([[0, 1, 1, 0, 0, 1]] * 4, "float32")
SOFT = {
    "T=10": losses.SoftCrossEntropy(temperature=10.0),
    "T=10, squared": losses.SoftCrossEntropy(10.0, True),
    "T=3, parity": losses.SoftCrossEntropy(3.0, parity="tinybert"),
    "binary, T=10": losses.SoftBinaryCrossEntropy(10.0, True),
}


def logits_of(model, x):
    x = {name: x[name] for name in model.input}
    return ops.convert_to_numpy(model(x, training=False))


def evaluated(model, x, y=None, sample_weight=None, order=..., batch_size=3):
    """The logs of rows in an order, in batches of a size."""
    x, y, sample_weight = keras.tree.map_structure(
        lambda values: None if values is None else values[order],
        (x, y, sample_weight),
    )
    return model.evaluate(
        x,
        y,
        batch_size,
        sample_weight=sample_weight,
        verbose=0,
        return_dict=True,
    )


def entropy(loss, logits):
    """The teacher's, for each row, as the loss counts it."""
    logits = np.asarray(logits, "float64") / loss.temperature
    if isinstance(loss, losses.SoftBinaryCrossEntropy):
        p = 1 / (1 + np.exp(-logits))
        values = -np.mean(p * np.log(p) + (1 - p) * np.log(1 - p), axis=-1)
    else:
        values = -np.sum(softmax(logits) * log_softmax(logits), axis=-1)
    if getattr(loss, "parity", None):
        values = values / logits.shape[-1]
    if loss.scale_by_temperature_squared:
        values = values * loss.temperature**2
    return values


@pytest.mark.parametrize("loss", SOFT.values(), ids=SOFT)
def test_the_teachers_entropy_is_subtracted(loss):
    teacher, student = bert(2, 12, seed=1), bert(1, 8, seed=2)
    x, weights = batch(ROWS), np.linspace(0, 2, ROWS, dtype="float32")
    model = kdkit.Distiller(teacher, student, kdkit.Objective(loss, weight=0.5))
    model.compile()
    logs = batch_logs(model, x, labels(ROWS), weights)
    known = logits_of(teacher, x)
    called = float(loss(known, logits_of(student, x), weights))
    constant = np.average(entropy(loss, known), weights=weights)
    assert called > constant  # the loss itself is the cross-entropy as ever
    assert logs[loss.name] == pytest.approx(called - constant, abs=1e-4)
    assert logs["loss"] == pytest.approx(logs[loss.name] / 2, rel=1e-6)


def test_a_teacher_without_some_classes_has_a_finite_entropy():
    known = np.array([[0.0, 1.0, -np.inf], [2.0, -np.inf, -1.0]], "float32")
    inputs = keras.Input((2,), name="x")
    zeros = keras.layers.Dense(3, kernel_initializer="zeros")(inputs)
    student = keras.Model({"x": inputs}, zeros)
    model = kdkit.Distiller(
        kdkit.taps.ModelShape(num_classes=3),
        student,
        kdkit.Objective(losses.SoftCrossEntropy()),
    )
    model.compile()
    x = {"x": np.eye(2), kdkit.taps.TEACHER_OUTPUTS: ({"logits": known},)}
    expected = divergence(np.maximum(known, -1e9), np.zeros((2, 3))).mean()
    assert batch_logs(model, x)["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sample_weight", [None, np.array([1.0, 2, 3, 4])])
def test_labels_count_where_there_are_some(sample_weight):
    model = kdkit.Distiller(
        bert(seed=1),
        bert(seed=2),
        kdkit.Objective(losses.SoftCrossEntropy(), weight=0.5),
        hard_label_weight=0.5,
    )
    model.compile(
        loss=cross_entropy(),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy("accuracy")],
    )
    x, y = batch(), labels()
    student = logits_of(model.student, x)
    weights = np.ones(4) if sample_weight is None else sample_weight
    soft = divergence(logits_of(model.teacher, x), student)
    soft = np.average(soft, weights=weights)
    # A mean over all rows, as Keras has it: an unlabelled row adds nothing.
    hard = -log_softmax(student)[np.arange(4), y]
    hard = (weights * LABELED * hard).mean()
    expected = {
        "soft_cross_entropy": soft,
        "hard_label_loss": hard,
        "loss": 0.5 * (soft + hard),
        "accuracy": np.average(
            student.argmax(axis=-1) == y, weights=weights * LABELED
        ),
    }
    x = x | {"label_weight": LABELED}
    for given in (y, np.where(LABELED == 1, y, (y + 1) % 3)):
        logs = batch_logs(model, x, given, sample_weight)
        assert logs == pytest.approx(expected, rel=1e-5)


def test_labels_of_tokens_count_by_tokens():
    """Of rows of 6 tokens and of one, in batches of any size."""
    ids = np.random.default_rng(0).integers(1, 40, (4, LENGTH + 1), "int32")
    weights = np.zeros((4, LENGTH), "float32")
    weights[:2], weights[2:, 0] = 1, 1
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    y = ids[:, 1:]
    model = kdkit.Distiller(
        decoder(1, seed=1),
        decoder(1, seed=2),
        kdkit.Objective(losses.LogitKLDivergence(), weight=0.5),
        hard_label_weight=0.25,
    )
    model.compile(loss=cross_entropy(reduction="mean_with_sample_weight"))
    log_probs = log_softmax(logits_of(model.student, x))
    values = -np.take_along_axis(log_probs, y[..., None], axis=-1)[..., 0]
    expected = np.average(values, weights=weights)
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        for batch_size in (4, 3, 2):
            logs = evaluated(model, x, y, weights, order, batch_size)
            assert logs["hard_label_loss"] == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_the_weighted_sum_whatever_the_batches_are():
    model = distiller(hard_label_weight=0.5)
    model.compile(keras.optimizers.SGD(0.0), cross_entropy())
    x, y = batch(ROWS), labels(ROWS)
    by_length = np.argsort(x["padding_mask"].sum(axis=1))
    whole = evaluated(model, x, y, batch_size=ROWS)
    for batch_size in (ROWS, 3, 2):
        logs = evaluated(model, x, y, None, by_length, batch_size)
        assert logs == pytest.approx(whole, rel=1e-5)
        total = 0.5 * logs["hard_label_loss"] + sum(
            one.weight * logs[one.name] for one in model.objectives
        )
        assert logs["loss"] == pytest.approx(total, rel=1e-6)
    # An epoch forgets the one before.
    history = model.fit(x, y, 2, epochs=2, shuffle=False, verbose=0).history
    for first, second in history.values():
        assert second == pytest.approx(first, rel=1e-6)


def tagger(seed, positions=True):
    """Classes for each token; or two answers to each of three questions."""
    backbone = bert(1, 8, num_classes=None, seed=seed)
    outputs = backbone(backbone.input)
    if positions:
        logits = keras.layers.Dense(3)(outputs["sequence_output"])
    else:
        logits = keras.layers.Dense(6)(outputs["pooled_output"])
        logits = keras.layers.Reshape((3, 2))(logits)
    model = keras.Model(backbone.input, logits)
    spread_weights(model, seed)
    return model


KINDS = {
    "tagger": (tagger, None),
    "decoder": (lambda seed: decoder(1, seed), None),
    "in chunks": (lambda seed: decoder(1, seed), 5),
    "questions": (lambda seed: tagger(seed, positions=False), None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_padding_counts_in_no_logits_per_position(kind):
    make, chunk_size = KINDS[kind]
    teacher, student = make(1), make(2)
    x = batch(seed=1)
    real = np.broadcast_to(np.arange(LENGTH) < REAL, (4, LENGTH))
    x["token_ids"] = np.where(real, np.maximum(x["token_ids"], 1), 0)
    mask = x["padding_mask"] = real.astype("int32")
    if kind == "questions":
        mask = np.ones((4, 3))
    expected = divergence(logits_of(teacher, x), logits_of(student, x))

    def assert_means(weights, x=x, given=None, **arguments):
        objectives = [
            kdkit.Objective(losses.LogitKLDivergence(), **arguments),
            kdkit.Objective(losses.SoftCrossEntropy(), **arguments),
        ]
        model = kdkit.Distiller(
            teacher, student, objectives, chunk_size=chunk_size
        )
        model.compile()
        y = None if given is None else np.zeros((4, LENGTH), "int32")
        logs = evaluated(model, x, y, given)
        mean = np.average(expected, weights=weights)
        assert logs == pytest.approx(
            {
                "logit_kl_divergence": mean,
                "soft_cross_entropy": mean,
                "loss": 2 * mean,
            },
            rel=1e-4,
        )

    rows = np.array([0.5, 1, 0, 2], "float32")
    assert_means(mask)
    assert_means(mask * rows[:, None], given=rows)
    if kind != "questions":
        assert_means(WEIGHTS, given=WEIGHTS)
        assert_means(mask, given=WEIGHTS, use_sample_weight=False)
        cut = {name: values[:, :REAL] for name, values in x.items()}
        expected = expected[:, :REAL]
        assert_means(np.ones((4, REAL)), cut)
