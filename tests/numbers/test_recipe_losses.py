"""The total loss of a recipe's stage, on a hand-made batch, against NumPy.

Of LightPAFF each family's stages, and its λ = 0 and 1.
"""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
from kit.adapter import resolved
from kit.caches import rows
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    batch,
    bert,
    decoder,
    divergence,
    labels,
    large_except,
    log_softmax,
    to_numpy,
    units,
    with_random_weights,
)

import kdkit
from kdkit import data, models, taps
from kdkit.config.runs import ADAPTER
from kdkit.data.unlabeled import mix_unlabeled
from kdkit.recipes import RECIPES
from kdkit.tasks import get_task

pytestmark = pytest.mark.usefixtures("eager")

TEACHER_LAYERS, STUDENT_LAYERS = 4, 3
CLASSES = 3


def on_labels(stage):
    """A stage's loss on labels, `None` for a stage without them."""
    if not stage.label_weight:
        return None
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def trainer_of(stage, teacher, student):
    distiller = kdkit.Distiller(
        teacher,
        student,
        stage.weighted_objectives(),
        stage.label_weight,
        chunk_size=stage.chunk_size,
    )
    distiller.compile(
        optimizer=keras.optimizers.SGD(0.5), loss=on_labels(stage)
    )
    return distiller


def logged(recipe, stage_name, parity, teacher, student, of_batch):
    """The loss of one stage that the Distiller reports for a batch."""
    stages = RECIPES[recipe].stages_for(get_task("sst2"), parity)
    (stage,) = [stage for stage in stages if stage.name == stage_name]
    distiller = trainer_of(stage, teacher, student)
    return float(distiller.test_on_batch(*of_batch, return_dict=True)["loss"])


def cross_entropy(y, logits):
    return -np.take_along_axis(log_softmax(logits), y[..., None], -1)[..., 0]


def mean(values, weights):
    return np.sum(values * weights) / np.sum(weights)


def read(model, x):
    wanted = ["logits", "cls_states", "hidden_states"]
    return to_numpy(taps.tapped(model, wanted)(x))


@pytest.fixture(scope="module")
def classifiers():
    return bert(num_layers=TEACHER_LAYERS), bert(STUDENT_LAYERS, seed=1)


# Soft labels' temperature, factor and reduction; patience's weight and
# reduction, in each reading.
T, ALPHA = 10.0, 0.5
READINGS = {
    None: (T**2, False, 0.1, "sum"),
    "paper": (1.0, False, 0.1, "sum"),
    "pkd": (T**2, True, 100.0, "mean"),
}


@pytest.mark.parametrize("recipe", ["vanilla_kd", "pkd"])
@pytest.mark.parametrize("parity", READINGS)
def test_pkd_and_vanilla_kd_are_their_equations_less_entropy(
    recipe, parity, classifiers
):
    factor, is_kl, beta, reduction = READINGS[parity]
    x, y = batch(), labels()
    teacher, student = (read(model, x) for model in classifiers)
    soft = divergence(teacher["logits"] / T, student["logits"] / T)
    if is_kl:
        soft = soft / CLASSES
    hard = cross_entropy(y, student["logits"])
    expected = (1 - ALPHA) * hard.mean() + ALPHA * factor * soft.mean()
    if recipe == "pkd":
        # "skip" of 4 to 3 blocks.
        distances = [
            np.square(
                units(student["cls_states"][block])
                - units(teacher["cls_states"][learned])
            )
            for block, learned in {1: 1, 2: 3}.items()
        ]
        if reduction == "mean":
            expected += beta * np.mean(distances)
        else:
            expected += beta * np.sum(distances) / len(y)
    loss = logged(recipe, "fine_tuning", parity, *classifiers, (x, y))
    assert loss == pytest.approx(expected, rel=1e-4)


def masked_batch():
    """Inputs, labels of masked tokens and their weights."""
    x = {**batch(), "mask_positions": np.array([[0, 1]] * 4)}
    weights = np.array([[1, 1], [1, 0], [1, 1], [0, 0]], "float32")
    return x, labels(8, VOCABULARY_SIZE).reshape(4, 2), weights


def test_distilbert_is_its_triple_loss():
    masked = [
        models.language_model(bert(num_layers, num_classes=None, seed=seed))
        for seed, num_layers in enumerate((TEACHER_LAYERS, STUDENT_LAYERS))
    ]
    x, y, weights = masked_batch()
    teacher, student = (read(model, x) for model in masked)
    soft = 4 * divergence(teacher["logits"] / 2, student["logits"] / 2)
    last = [units(one["hidden_states"][-1]) for one in (teacher, student)]
    cosine = 1 - np.sum(last[0] * last[1], axis=-1)
    expected = (
        5 * mean(soft, weights)
        + 2 * mean(cross_entropy(y, student["logits"]), weights)
        + mean(cosine, x["padding_mask"])
    )
    loss = logged("distilbert", "pretraining", None, *masked, (x, y, weights))
    assert loss == pytest.approx(expected, rel=1e-4)


FAMILIES = ["classifier", "bert", "gpt2", "mass"]


def make(family, size, seed):
    """A model of a family, far from its start."""
    keras.utils.set_random_seed(seed)
    if family == "classifier":
        model = bert(size, seed=seed)
    elif family == "bert":
        model = models.language_model(bert(size, num_classes=None, seed=seed))
        # Nothing reads it, as `kdkit pretrain` has it.
        model.backbone.get_layer("pooled_dense").trainable = False
    elif family == "gpt2":
        model = decoder(size, seed=seed)
    else:
        backbone = models.MassBackbone(
            vocabulary_size=VOCABULARY_SIZE,
            encoder_num_layers=size,
            decoder_num_layers=size,
            num_heads=2,
            hidden_dim=8,
            intermediate_dim=12,
            dropout=0.0,
        )
        model = models.MassSeq2SeqLM(backbone)
    return with_random_weights(model, seed=seed)


def batch_of(family):
    """Inputs, labels and weights; the last row ends before its batch does."""
    if family == "classifier":
        return batch(), labels(), np.ones(4)
    if family == "bert":
        return masked_batch()
    rng = np.random.default_rng(4)
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


def stage_of(family, share, name=None, chunk_size=None):
    """A stage of LightPAFF; by default the first that the model's head fits."""
    if name is None:
        name = "fine_tuning" if family == "classifier" else "pretraining"
    recipe = RECIPES["lightpaff"]
    stages = recipe.for_families.get(family, recipe).stages
    (stage,) = [stage for stage in stages if stage.name == name]
    (objective,) = stage.objectives
    assert objective.loss.name == "logit_kl_divergence"
    return dataclasses.replace(
        stage, soft_label_weight=share, chunk_size=chunk_size
    )


# Equations 2 and 5, 3 and 6, 4 and 7; a decoder's logits whole and in chunks.
STAGES = [
    ("bert", "pretraining", None),
    ("classifier", "fine_tuning", None),
    *itertools.product(["gpt2"], ["pretraining", "fine_tuning"], [None, 4]),
    *itertools.product(["mass"], ["pretraining", "fine_tuning"], [None]),
]


@pytest.mark.parametrize(("family", "name", "chunk_size"), STAGES)
@pytest.mark.parametrize("share", large_except([0.0, 0.4, 1.0], 0.4))
def test_lightpaff_is_its_equation_less_the_teachers_entropy(
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
    expected = mean(equation - share * entropy, weights)
    stage = stage_of(family, share, name, chunk_size)
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
    stage = stage_of(family, 0.0)
    student, plain = make(family, 1, seed=1), make(family, 1, seed=1)
    begun = student.get_weights()
    trainer = trainer_of(stage, make(family, 2, seed=0), student)
    plain.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=on_labels(stage),
        metrics=[],
        jit_compile=False,
    )
    found = trained(trainer, student, *batch_of(family))
    expected = trained(plain, plain, *batch_of(family))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert any(
        np.any(new != old) for new, old in zip(found, begun, strict=True)
    )


@pytest.mark.parametrize("family", large_except(FAMILIES, "bert", "mass"))
def test_with_soft_labels_alone_the_labels_do_not_count(family):
    x, y, weights = batch_of(family)
    teacher = make(family, 2, seed=0)
    students = [make(family, 1, seed=1) for _ in range(2)]
    trainer = trainer_of(stage_of(family, 1.0), teacher, students[0])
    alone = kdkit.Distiller(
        teacher,
        students[1],
        [kdkit.Objective(kdkit.losses.LogitKLDivergence())],
    )
    alone.compile(optimizer=keras.optimizers.SGD(0.5))
    found = trained(trainer, students[0], x, y, weights)
    # Labels of another text.
    expected = trained(alone, students[1], x, y[::-1], weights)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def settings_of(*words):
    """The settings that a command of TinyBERT comes to."""
    return resolved(["distill", "tinybert", "--run-dir", "unused", *words])


def test_a_control_is_trained_with_the_stages_optimizer():
    words = ("--smoke", "--parity", "tinybert", "--control")
    made = ADAPTER.validate_python(settings_of(*words))
    (control,) = made.arms["control"]
    assert control.optimizer == made.stages[-1].optimizer
    assert not control.optimizer.bias_correction


@pytest.mark.parametrize(("task", "length"), [("sst2", 64), ("mrpc", 128)])
def test_rows_are_as_long_as_the_papers_for_the_task(task, length):
    words = ("--task", task, "--teacher", "unread")
    for parity, buckets in ((("--parity", "tinybert"), None), ((), 8)):
        made = settings_of(*words, *parity)["data"]
        assert made["sequence_length"] == length
        assert made["num_buckets"] == buckets


@pytest.mark.parametrize(
    ("words", "buckets"),
    [
        # Losses that count padding need one length, unless the user chose.
        (("--parity", "tinybert"), None),
        (("--parity", "tinybert", "--set", "data.num_buckets=4"), 4),
        (("--parity", "paper"), 1),
        ((), 1),
    ],
)
def test_one_length_is_for_losses_that_count_padding(words, buckets):
    made = settings_of("--smoke", *words)["data"]
    assert made["num_buckets"] == buckets


def test_batches_of_one_length_have_that_of_the_rows():
    encoded = dataclasses.replace(rows(4), sequence_length=12)
    unlabeled = dataclasses.replace(encoded, labels=None)
    examples, rows_of_epoch = mix_unlabeled(encoded, unlabeled, 1.0)
    mixed = data.BatchStream(examples, data.Buckets(1, None, rows_of_epoch))
    plain = data.BatchStream(encoded, data.Buckets(1, None))
    for batches in (
        plain.training().take(4),
        mixed.training().take(4),
        plain.evaluation(),
    ):
        for x, *_ in batches.as_numpy_iterator():
            assert x["token_ids"].shape == (1, 12)
