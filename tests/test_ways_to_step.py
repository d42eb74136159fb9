"""Accumulated gradients, XLA and half precision change nothing but the cost.

One Distiller has the objectives of all recipes at once, so that a few traces
hold for each of them.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import LENGTH
from helpers import VOCABULARY_SIZE
from helpers import bert
from helpers import decoder
from helpers import spread_weights

import kdkit
from kdkit import data
from kdkit import policies
from kdkit.models import MassBackbone
from kdkit.models import MassSeq2SeqLM
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task
from kdkit.training import Stage

ROWS, UPDATES, PARTS = 4, 3, 2
STAGE = Stage(
    "intermediate_layer", 1, 1e-3, hard_label_weight=1.0, warmup_fraction=0.5
)
# How far losses and weights may be from those of the plain step.
EXACT = {"rtol": 1e-4, "atol": 2e-5}
HALF = {
    "mixed_bfloat16": {"rtol": 0.05, "atol": 0.02},
    "mixed_float16": {"rtol": 0.01, "atol": 0.005},
}


def objectives_of_all_recipes():
    """Each once, under a name of its own."""
    task = get_task("sst2")
    found = {}
    for recipe in RECIPES.values():
        for stage in [*recipe.stages_for(task), *recipe.general]:
            for settings in stage.objectives:
                found[repr(dataclasses.replace(settings, name=""))] = settings
    return [
        dataclasses.replace(settings, name=f"{settings.name}_{number}").build()
        for number, settings in enumerate(found.values())
    ]


def classifiers():
    """Teacher, student, objectives and a batch of rows of one length."""
    generator = np.random.default_rng(0)
    shape = (ROWS, LENGTH)
    x = {
        "token_ids": generator.integers(1, VOCABULARY_SIZE, shape),
        "segment_ids": np.zeros(shape),
        "padding_mask": np.ones(shape),
    }
    x = {name: values.astype("int32") for name, values in x.items()}
    y = generator.integers(0, 3, ROWS).astype("int32")
    return bert(4, seed=1), bert(2, seed=2), objectives_of_all_recipes(), (x, y)


def on_logits():
    (stage, _) = RECIPES["lightpaff"].for_families["gpt2"].stages
    return stage.build_objectives()


def decoders():
    ids = np.random.default_rng(0).integers(0, 40, (ROWS, 9)).astype("int32")
    x = {"token_ids": ids[:, :-1], "padding_mask": np.ones_like(ids[:, :-1])}
    batch = x, ids[:, 1:], np.ones((ROWS, 8), "float32")
    return decoder(2, seed=1), decoder(1, seed=2), on_logits(), batch


def encoder_decoders():
    generator = np.random.default_rng(0)
    source, target = generator.integers(5, 12, (2, ROWS, 4)).astype("int32")
    real = np.ones_like(source)
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": real,
        "decoder_token_ids": target,
        "decoder_padding_mask": real,
        "decoder_positions": np.cumsum(real, axis=1, dtype="int32") - 1,
    }
    models = [
        MassSeq2SeqLM(MassBackbone(12, 1, 1, 2, 8, 12, dropout=0.0))
        for _ in range(2)
    ]
    for seed, model in enumerate(models, start=1):
        spread_weights(model, seed)
    weights = np.ones((ROWS, 4), "float32")
    return *models, on_logits(), (x, generator.permuted(target), weights)


KINDS = {
    "classifiers": (classifiers, None),
    "decoders": (decoders, 8),
    "encoder_decoders": (encoder_decoders, None),
}


def train(kind, jit_compile=False, fused=False, parts=1, policy="float32"):
    """The losses of some updates, and the weights that they leave."""
    make, chunk_size = KINDS[kind]
    teacher, student, objectives, batch = make()
    student = policies.with_policy(student, policy)
    keras.utils.set_random_seed(0)  # the same projections
    distiller = kdkit.Distiller(
        teacher,
        student,
        objectives,
        STAGE.hard_label_weight,
        chunk_size=chunk_size,
    )
    stage = dataclasses.replace(STAGE, gradient_accumulation_steps=parts)
    optimizer = stage.make_optimizer(2 * UPDATES, fused)
    if policy == "mixed_float16":
        # Keras begins with a scale that these losses are too large for, and
        # leaves out updates until it is small enough.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, 16.0)
    distiller.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        jit_compile=jit_compile,
    )
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    if parts > 1:
        batches = data.in_parts(batches, parts)
    history = distiller.fit(
        batches, steps_per_epoch=UPDATES * parts, shuffle=False, verbose=0
    )
    assert int(distiller.optimizer.iterations) == UPDATES
    losses = {name: value for name, (value,) in history.history.items()}
    return losses, student.get_weights()


@pytest.fixture(scope="module")
def plain():
    """The plain step of each kind, run once."""
    done = {}

    def of(kind):
        if kind not in done:
            done[kind] = train(kind)
        return done[kind]

    return of


def check(found, expected, tolerance):
    assert set(found[0]) == set(expected[0])
    for name, value in expected[0].items():
        np.testing.assert_allclose(
            found[0][name], value, **tolerance, err_msg=name
        )
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


@pytest.mark.parametrize(
    ("kind", "fused"), [("classifiers", False), ("encoder_decoders", True)]
)
def test_gradients_of_parts_make_the_update_of_the_batch(kind, fused, plain):
    found = train(kind, parts=PARTS, fused=fused)
    check(found, plain(kind), EXACT)


def test_xla_changes_no_number(plain):
    found = train("classifiers", jit_compile=True)
    check(found, plain("classifiers"), EXACT)


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("classifiers", "mixed_bfloat16"),
        ("classifiers", "mixed_float16"),
        ("encoder_decoders", "mixed_bfloat16"),
    ],
)
def test_half_precision_is_near(kind, policy, plain):
    check(train(kind, policy=policy), plain(kind), HALF[policy])


@pytest.mark.large
def test_all_at_once(plain):
    found = train(
        "decoders", jit_compile=True, parts=PARTS, policy="mixed_bfloat16"
    )
    check(found, plain("decoders"), HALF["mixed_bfloat16"])


def test_parts_of_a_batch_hold_its_rows_in_order():
    x = {"rows": np.arange(5), "sequences": np.arange(10)}
    batches = tf.data.Dataset.from_tensors((x, np.arange(5))).repeat()
    first, second, again = data.in_parts(batches, 2).take(3).as_numpy_iterator()
    assert [*first[0]["rows"]] == [*first[1]] == [0, 1]
    assert [*first[0]["sequences"]] == [0, 1, 2, 3]
    assert [*second[0]["rows"]] == [2, 3, 4]
    assert [*again[0]["rows"]] == [0, 1]


def test_no_part_is_empty():
    batches = tf.data.Dataset.from_tensors({"rows": np.arange(2)}).repeat()
    parts = data.in_parts(batches, 3).take(3).as_numpy_iterator()
    assert [part["rows"].tolist() for part in parts] == [[0], [0], [1]]


def test_batches_of_all_lengths_share_one_trace(monkeypatch):
    """And so do the batches of dev: retracing costs more than the steps."""
    traces = {"train_step": 0, "test_step": 0}

    def counted(name):
        step = getattr(kdkit.Distiller, name)

        def count(self, batch):
            traces[name] += 1
            return step(self, batch)

        monkeypatch.setattr(kdkit.Distiller, name, count)

    for name in traces:
        counted(name)
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, LENGTH + 1, 22).astype("int32")
    encoded = data.EncodedExamples(
        token_ids=generator.integers(
            1, VOCABULARY_SIZE, lengths.sum(), "int32"
        ),
        segment_ids=np.zeros(lengths.sum(), "int32"),
        lengths=lengths,
        labels=np.zeros(22, "int32"),
        sequence_length=LENGTH,
        num_truncated=0,
        pad_token_id=0,
    )
    batches, steps = data.training_batches(encoded, 4, seed=0, num_buckets=4)
    dev, _ = data.evaluation_batches(encoded, 8, num_buckets=3)
    shapes = {tuple(x["token_ids"].shape) for x, _ in batches.take(steps)}
    assert len(shapes) > 3
    distiller = kdkit.Distiller(
        bert(1, seed=1),
        bert(1, seed=2),
        [kdkit.Objective(kdkit.losses.SoftCrossEntropy())],
    )
    distiller.compile(jit_compile=False)
    for _ in range(2):
        distiller.fit(
            batches,
            steps_per_epoch=steps,
            validation_data=dev,
            shuffle=False,
            verbose=0,
        )
    assert traces == {"train_step": 1, "test_step": 1}
