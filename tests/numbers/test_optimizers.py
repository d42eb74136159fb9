"""AdamW's updates: those of the authors' code, and of embeddings, in NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import batch, bert, large_except

import kdkit
from kdkit.models.architectures import padding_row
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training.optimizers import AdamW, make_optimizer

pytestmark = pytest.mark.usefixtures("eager")

UPDATES, RATE, PAD = 10, 0.01, 0
NOT_DECAYED = ("bias", "layer_norm", "gamma", "beta")


def stage_of(recipe, name, parity):
    stages = RECIPES[recipe].stages_for(get_task("sst2"), parity)
    (stage,) = [stage for stage in stages if stage.name == name]
    return dataclasses.replace(stage, learning_rate=RATE)


def compiled(stage, objectives):
    """A distiller with the stage's optimizer, and its student."""
    student = bert(1, 8, seed=2)
    keras.utils.set_random_seed(1)
    distiller = kdkit.Distiller(bert(2, 12, seed=1), student, objectives)
    distiller.compile(
        make_optimizer(stage, UPDATES, padding_row=padding_row(student, PAD)),
        jit_compile=False,
    )
    return distiller, student


def dense_gradients(distiller, x):
    """By name of the weight, `None` where there is none."""
    with tf.GradientTape() as tape:
        loss, _ = distiller.run_student(
            x, None, None, distiller.run_teachers(x), training=True
        )
    variables = distiller.trainable_variables
    return [
        None if one is None else tf.convert_to_tensor(one).numpy()
        for one in tape.gradient(loss, variables)
    ]


def linear(step):
    """The share of the rate in the update after so many of them."""
    done = step / UPDATES
    return done / 0.1 if done < 0.1 else (1 - done) / 0.9


class BertAdam:
    """The optimizer of TinyBERT's code: no bias correction, clipping alone."""

    beta_2, decay, num_clipped = 0.999, 0.01, 0

    def __init__(self, paths):
        self.paths = paths
        self.moments = [(0.0, 0.0)] * len(paths)
        self.step = 0

    def clipped(self, gradients):
        for gradient in gradients:
            norm = np.linalg.norm(gradient)
            self.num_clipped += norm > 1
            yield gradient * min(1.0, 1.0 / (norm + 1e-6))

    def correction(self):
        return 1.0

    def __call__(self, weights, gradients, rate):
        self.step += 1
        has_gradient = [one is not None for one in gradients]
        found = self.clipped([one for one in gradients if one is not None])
        for number, weight in enumerate(weights):
            if not has_gradient[number]:
                yield weight
                continue
            gradient = next(found)
            mean, square = self.moments[number]
            mean = 0.9 * mean + 0.1 * gradient
            square = self.beta_2 * square + (1 - self.beta_2) * gradient**2
            self.moments[number] = mean, square
            update = self.correction() * mean / (np.sqrt(square) + 1e-6)
            if not any(name in self.paths[number] for name in NOT_DECAYED):
                update = update + self.decay * weight
            yield weight - rate * update


class DistilBertAdam(BertAdam):
    """That of DistilBERT's code: one norm for all, and no decay."""

    beta_2, decay = 0.98, 0.0

    def clipped(self, gradients):
        norm = np.sqrt(sum(np.sum(one**2) for one in gradients))
        self.num_clipped += norm > 5
        return (one * min(1.0, 5.0 / (norm + 1e-6)) for one in gradients)

    def correction(self):
        return np.sqrt(1 - self.beta_2**self.step) / (1 - 0.9**self.step)


def assert_updates(distiller, x, optimizer, share, padding_row=None):
    """Compares some updates with an optimizer in NumPy."""
    for step in range(4):
        before = [one.numpy() for one in distiller.trainable_variables]
        gradients = dense_gradients(distiller, x)
        if padding_row is not None:
            number = optimizer.paths.index(padding_row)
            assert np.abs(gradients[number][PAD]).max() > 0.01
            gradients[number][PAD] = 0.0
        expected = optimizer(before, gradients, RATE * share(step))
        distiller.train_on_batch(x)
        after = [one.numpy() for one in distiller.trainable_variables]
        for value, right, path in zip(
            after, expected, optimizer.paths, strict=True
        ):
            np.testing.assert_allclose(value, right, atol=1e-5, err_msg=path)
    moved = max(np.abs(a - b).max() for a, b in zip(after, before, strict=True))
    assert moved > RATE / 10


def paths_of(distiller):
    return [one.path for one in distiller.trainable_variables]


def test_tinyberts_first_step_updates_as_the_authors_code():
    stage = stage_of("tinybert", "intermediate_layer", "tinybert")
    distiller, student = compiled(stage, stage.weighted_objectives())
    optimizer = BertAdam(paths_of(distiller))
    path, row = padding_row(student, PAD)
    assert row == PAD
    x = batch()
    assert (x["token_ids"] == PAD).any()
    assert_updates(distiller, x, optimizer, lambda step: 1.0, path)
    assert optimizer.num_clipped > 10


def test_tinyberts_second_step_updates_as_the_authors_code():
    stage = stage_of("tinybert", "prediction_layer", "tinybert")
    distiller, _ = compiled(stage, stage.weighted_objectives())
    optimizer = BertAdam(paths_of(distiller))
    # Padding adds nothing to the logits: its row has no gradient anyway.
    assert_updates(distiller, batch(), optimizer, linear)


def test_distilberts_pretraining_updates_as_the_authors_code():
    stage = stage_of("distilbert", "pretraining", None)
    stage = dataclasses.replace(stage, warmup_fraction=0.1)
    loss = kdkit.losses.LogitKLDivergence(temperature=2.0)
    distiller, _ = compiled(stage, [kdkit.Objective(loss, weight=50.0)])
    optimizer = DistilBertAdam(paths_of(distiller))
    assert_updates(distiller, batch(), optimizer, linear)
    assert optimizer.num_clipped == 4


TOKENS, LABELS = np.array([[2, 2, 5], [2, 0, 5]], "int32"), np.array([0, 0])
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
USUAL = {"learning_rate": RATE, "weight_decay": 0.1, "epsilon": 1e-6}


def classifier(name="student"):
    token_ids = keras.Input((3,), dtype="int32")
    embedded = keras.layers.Embedding(6, 4, name="words")(token_ids)
    return keras.Model(
        token_ids, keras.layers.Dense(2)(embedded[:, 0]), name=name
    )


def assert_summed(model, trainer, optimizer):
    """A step's update of the words is that of their dense gradient."""
    words = model.get_layer("words").embeddings
    before = words.numpy()
    with tf.GradientTape() as tape:
        loss = CROSS_ENTROPY(LABELS, model(TOKENS))
    gradient = tf.convert_to_tensor(tape.gradient(loss, words)).numpy()
    # Keras puts the corrections of both moments into the rate, epsilon aside.
    scale = np.sqrt(1 - 0.999)
    step = scale * gradient / (np.sqrt((1 - 0.999) * gradient**2) + 1e-6)
    trainer.compile(optimizer, CROSS_ENTROPY, jit_compile=False)
    trainer.train_on_batch(TOKENS, LABELS)
    np.testing.assert_allclose(
        words.numpy(), before * (1 - RATE * 0.1) - RATE * step, 1e-5, 1e-6
    )


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_a_word_that_occurs_twice_is_updated_by_the_sum(fused):
    model = classifier()
    assert_summed(model, model, AdamW(fused=fused, **USUAL))


def test_a_distiller_sums_them_for_every_optimizer():
    student = classifier()
    objective = kdkit.Objective(kdkit.losses.LogitMSE(), weight=1e-9)
    distiller = kdkit.Distiller(
        classifier("teacher"), student, [objective], hard_label_weight=1.0
    )
    assert_summed(student, distiller, keras.optimizers.AdamW(**USUAL))


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
        model.compile(
            AdamW(fused=fused, **USUAL, **options),
            CROSS_ENTROPY,
            run_eagerly=not fused,
            jit_compile=False,
        )
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        results.append([*model.weights, *model.optimizer.variables])
    for plain, fused in zip(*results, strict=True):
        np.testing.assert_allclose(plain.numpy(), fused.numpy(), 1e-4, 1e-6)


@pytest.mark.large
def test_two_replicas_clip_without_the_untrained_row():
    """Its gradient is left out before norms are taken, as on one device."""
    found = []
    one_device = tf.distribute.get_strategy()
    mirrored = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()
    )
    loss = kdkit.losses.HiddenStateMSE(parity="tinybert")
    objective = kdkit.Objective(loss, tap="hidden_states", projection="shared")
    for strategy in (one_device, mirrored):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            student = bert(1, 8, seed=2)
            model = kdkit.Distiller(bert(2, 12, seed=1), student, [objective])
            path, row = padding_row(student, PAD)
            model.compile(
                AdamW(
                    learning_rate=RATE,
                    clipnorm=0.01,
                    epsilon=1.0,  # so that the gradient's length shows
                    bias_correction=False,
                    untrained_rows={path: row},
                ),
                run_eagerly=strategy is one_device,
                jit_compile=False,
            )
        model.fit(batch(8), batch_size=8, shuffle=False, verbose=0)
        found.append(student.get_weights())
    for of_one, of_two in zip(*found, strict=True):
        np.testing.assert_allclose(of_two, of_one, atol=2e-8)


def test_an_optimizer_is_made_again_from_its_configuration():
    made = AdamW(
        fused=True, bias_correction=False, untrained_rows={"words": 1}, **USUAL
    )
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(made))
    assert type(copy) is AdamW
    assert copy.get_config() == made.get_config()
