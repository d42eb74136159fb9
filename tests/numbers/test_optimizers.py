"""Word embeddings get AdamW's update in both implementations."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import large_except

import kdkit
from kdkit.training.optimizers import AdamW

pytestmark = pytest.mark.usefixtures("quick_runs")

RATE, BETA_1, BETA_2, EPSILON, DECAY = 0.01, 0.9, 0.999, 1e-6, 0.1
TOKENS = np.array([[2, 2, 5], [2, 0, 5]], "int32")


def classifier(name="student"):
    token_ids = keras.Input((3,), dtype="int32")
    embedded = keras.layers.Embedding(6, 4, name="words")(token_ids)
    return keras.Model(
        token_ids, keras.layers.Dense(2)(embedded[:, 0]), name=name
    )


def reference(model, x, y):
    """The word embeddings after one step, from the dense gradient."""
    words = model.get_layer("words").embeddings
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
            y, model(x)
        )
    gradient = tf.convert_to_tensor(tape.gradient(loss, words)).numpy()
    before = words.numpy()
    mean = (1 - BETA_1) * gradient / (1 - BETA_1)
    # Keras puts the corrections of both moments into the rate, epsilon aside.
    scale = np.sqrt(1 - BETA_2)
    deviation = np.sqrt((1 - BETA_2) * gradient**2) + EPSILON
    step = RATE * scale * mean / deviation
    return before * (1 - RATE * DECAY) - step


def optimizer(**options):
    return AdamW(
        learning_rate=RATE, weight_decay=DECAY, epsilon=EPSILON, **options
    )


def compiled(model, **options):
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        **options,
    )
    return model


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_a_word_that_occurs_twice_is_updated_by_the_sum(fused):
    model = classifier()
    y = np.array([0, 0])
    expected = reference(model, TOKENS, y)
    compiled(model, optimizer=optimizer(fused=fused))
    model.train_on_batch(TOKENS, y)
    words = model.get_layer("words").embeddings.numpy()
    np.testing.assert_allclose(words, expected, rtol=1e-5, atol=1e-6)


def test_a_distiller_sums_them_for_every_optimizer():
    student = classifier()
    y = np.array([0, 0])
    expected = reference(student, TOKENS, y)
    distiller = compiled(
        kdkit.Distiller(
            classifier("teacher"),
            student,
            [kdkit.Objective(kdkit.losses.LogitMSE(), "logits", weight=1e-9)],
            hard_label_weight=1.0,
        ),
        optimizer=keras.optimizers.AdamW(
            RATE, weight_decay=DECAY, epsilon=EPSILON
        ),
    )
    distiller.train_on_batch(TOKENS, y)
    words = student.get_layer("words").embeddings.numpy()
    np.testing.assert_allclose(words, expected, rtol=1e-5, atol=1e-6)


AUTHORS = {"bias_correction": False, "clipnorm": 0.1}


@pytest.mark.parametrize(
    "options", large_except([{}, AUTHORS], {}), ids=["usual", "authors"]
)
def test_a_fused_update_goes_on_as_the_plain_one(options):
    generator = np.random.default_rng(0)
    x = generator.integers(6, size=(64, 3), dtype="int32")
    y = generator.integers(2, size=64)
    start, results = classifier(), []
    for fused in (False, True):
        model = classifier()
        model.set_weights(start.get_weights())
        compiled(model, optimizer=optimizer(fused=fused, **options))
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        results.append([*model.weights, *model.optimizer.variables])
    for plain, fused in zip(*results, strict=True):
        np.testing.assert_allclose(
            plain.numpy(), fused.numpy(), rtol=1e-4, atol=1e-6
        )


def test_an_optimizer_is_made_again_from_its_configuration():
    made = optimizer(
        fused=True, bias_correction=False, untrained_rows={"words": 1}
    )
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(made))
    assert isinstance(copy, AdamW)
    assert (copy.fused, copy.bias_correction) == (True, False)
    assert copy.untrained_rows == {"words": 1}
    assert copy.weight_decay == DECAY
