"""LightPAFF's stages on text, for GPT-2 and MASS, against its equations.

And of every family, BERT's masked tokens and classes included, λ = 0 and 1.
"""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    batch,
    bert,
    decoder,
    labels,
    large_except,
    log_softmax,
    with_random_weights,
)

import kdkit
from kdkit.models import MassBackbone, MassSeq2SeqLM, language_model
from kdkit.recipes import RECIPES
from kdkit.training.optimizers import make_label_loss, make_optimizer

pytestmark = pytest.mark.usefixtures("quick_runs")

# Equations 3, 6, 4 and 7; a decoder's logits whole and in chunks.
STAGES = [
    *itertools.product(["gpt2"], ["pretraining", "fine_tuning"], [None, 4]),
    *itertools.product(["mass"], ["pretraining", "fine_tuning"], [None]),
]

FAMILIES = ["classifier", "bert", "gpt2", "mass"]


def make(family, size, seed):
    """A model of a family, far from its start."""
    keras.utils.set_random_seed(seed)
    if family == "classifier":
        model = bert(size, seed=seed)
    elif family == "bert":
        model = language_model(bert(size, num_classes=None, seed=seed))
        # Nothing reads it, as `kdkit pretrain` has it.
        model.backbone.get_layer("pooled_dense").trainable = False
    elif family == "gpt2":
        model = decoder(size, seed=seed)
    else:
        backbone = MassBackbone(
            VOCABULARY_SIZE, size, size, 2, 8, 12, dropout=0.0
        )
        model = MassSeq2SeqLM(backbone)
    return with_random_weights(model, seed=seed)


def batch_of(family):
    """Inputs, labels and weights; the last row ends before its batch does."""
    if family == "classifier":
        return batch(), labels(), None
    rng = np.random.default_rng(4)
    if family == "bert":
        x = {**batch(), "mask_positions": np.array([[0, 1]] * 4)}
        weights = np.array([[1, 1], [1, 0], [1, 1], [0, 0]], "float32")
        return x, rng.integers(1, VOCABULARY_SIZE, (4, 2)), weights
    tokens = rng.integers(1, VOCABULARY_SIZE, (3, LENGTH + 1))
    weights = np.ones((3, LENGTH), "float32")
    weights[-1, 2:] = 0
    mask = weights.astype("int32")
    x = {"token_ids": tokens[:, :-1] * mask, "padding_mask": mask}
    if family == "mass":
        x = {f"decoder_{name}": value for name, value in x.items()}
        x |= {
            "decoder_positions": np.tile(np.arange(LENGTH), (3, 1)) * mask,
            "encoder_token_ids": rng.integers(1, VOCABULARY_SIZE, (3, 4)),
            "encoder_padding_mask": np.ones((3, 4), "int32"),
        }
    return x, tokens[:, 1:] * mask, weights


def stage_of(family, name, **changes):
    recipe = RECIPES["lightpaff"]
    stages = recipe.for_families.get(family, recipe).stages
    (stage,) = [stage for stage in stages if stage.name == name]
    return dataclasses.replace(stage, **changes)


def first_stage(family):
    """The first stage that a family's model has the head for."""
    return "fine_tuning" if family == "classifier" else "pretraining"


def of_labels(stage):
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    return make_label_loss(stage, loss)


def trainer_of(stage, teacher, student):
    distiller = kdkit.Distiller(
        teacher,
        student,
        stage.weighted_objectives(),
        stage.label_weight,
        chunk_size=stage.chunk_size,
    )
    distiller.compile(
        optimizer=keras.optimizers.SGD(0.5), loss=of_labels(stage)
    )
    return distiller


@pytest.mark.parametrize(("family", "name", "chunk_size"), STAGES)
@pytest.mark.parametrize("share", large_except([0.0, 0.4, 1.0], 0.4))
def test_a_stage_is_its_equation_less_the_teachers_entropy(
    family, name, chunk_size, share
):
    teacher, student = make(family, 2, seed=0), make(family, 1, seed=1)
    x, y, weights = batch_of(family)
    of_teacher, of_student = (
        log_softmax(np.array(model(x), "float64"))
        for model in (teacher, student)
    )
    targets = share * np.exp(of_teacher)
    targets += (1 - share) * np.eye(of_student.shape[-1])[y]
    equation = -np.sum(targets * of_student, -1)
    entropy = -np.sum(np.exp(of_teacher) * of_teacher, -1)
    expected = np.sum(weights * (equation - share * entropy)) / weights.sum()
    stage = stage_of(
        family, name, soft_label_weight=share, chunk_size=chunk_size
    )
    assert [one.loss.name for one in stage.objectives] == [
        "logit_kl_divergence"
    ]
    logs = trainer_of(stage, teacher, student).test_on_batch(
        x, y, weights, return_dict=True
    )
    assert float(logs["loss"]) == pytest.approx(expected, rel=1e-5)


def trained(trainer, student, x, y, weights):
    """The student's weights after some updates."""
    for _ in range(3):
        trainer.train_on_batch(x, y, weights)
    return student.get_weights()


@pytest.mark.parametrize("family", large_except(FAMILIES, "classifier", "gpt2"))
def test_without_soft_labels_it_is_plain_training(family):
    data = batch_of(family)
    stage = stage_of(
        family, first_stage(family), soft_label_weight=0.0, chunk_size=None
    )
    student, plain = make(family, 1, seed=1), make(family, 1, seed=1)
    begun = student.get_weights()
    trainer = trainer_of(stage, make(family, 2, seed=0), student)
    # As `kdkit pretrain` and `kdkit distill` train without a teacher.
    for model in (trainer, plain):
        model.compile(
            optimizer=make_optimizer(stage, 3),
            loss=of_labels(stage),
            metrics=[],
            jit_compile=False,
        )
    weights = trained(trainer, student, *data)
    for found, expected in zip(
        weights, trained(plain, plain, *data), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert any(
        np.any(new != old) for new, old in zip(weights, begun, strict=True)
    )


@pytest.mark.parametrize("family", large_except(FAMILIES, "bert", "mass"))
def test_with_soft_labels_alone_the_labels_do_not_count(family):
    x, y, weights = batch_of(family)
    stage = stage_of(
        family, first_stage(family), soft_label_weight=1.0, chunk_size=None
    )
    teacher = make(family, 2, seed=0)
    students = [make(family, 1, seed=1) for _ in range(2)]
    found = trained(
        trainer_of(stage, teacher, students[0]), students[0], x, y, weights
    )
    alone = kdkit.Distiller(
        teacher,
        students[1],
        [kdkit.Objective(kdkit.losses.LogitKLDivergence())],
    )
    alone.compile(optimizer=keras.optimizers.SGD(0.5))
    # Labels of another text.
    for ours, theirs in zip(
        found, trained(alone, students[1], x, y[::-1], weights), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
