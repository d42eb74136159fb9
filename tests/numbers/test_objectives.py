"""Objectives: the logs have the loss of the tapped tensors that they pair."""

import json

import keras
import numpy as np
import pytest
from kit.helpers import (
    assert_same_weights,
    batch,
    batch_logs,
    bert,
    cross_entropy,
    labels,
    log_softmax,
    softmax,
    to_numpy,
)

from kdkit import Distiller, Objective, losses, taps
from kdkit.distillation import Projection

pytestmark = pytest.mark.usefixtures("eager")

ROWS = 4
X = batch(ROWS)
MASK = X["padding_mask"]
POSITIONS = np.arange(MASK.size, dtype="float32").reshape(MASK.shape) + 1.0
PER_EXAMPLE = ("logits", "pooled_output", "cls_states")
HIDDEN = {"loss": losses.HiddenStateMSE(), "tap": "hidden_states"}
# Arguments of an objective for a student of two blocks and a teacher of four,
# and the pairs of layers, student's first. Blocks' tensors count from 0.
COMPARED = {
    "mapped": (HIDDEN | {"layer_map": {1: 1, 2: 3}}, [(0, 0), (1, 1), (2, 3)]),
    "uniform": (HIDDEN, [(0, 0), (1, 2), (2, 4)]),
    "mean of pairs": (
        HIDDEN | {"pair_reduction": "mean"},
        [(0, 0), (1, 2), (2, 4)],
    ),
    "without embeddings": (
        HIDDEN | {"include_embeddings": False},
        [(1, 2), (2, 4)],
    ),
    "attention": (
        {"loss": losses.AttentionMSE(), "tap": "attention_logits"},
        [(0, 1), (1, 3)],
    ),
    "[CLS]": (
        {
            "loss": losses.PatienceMSE(),
            "tap": "cls_states",
            "layer_map": "skip",
        },
        [(1, 2)],
    ),
    "relations": (
        {
            "loss": losses.RelationKLDivergence(4),
            "tap": "queries",
            "layer_map": "final",
        },
        [(1, 3)],
    ),
    "pooled": ({"loss": losses.HiddenStateMSE(), "tap": "pooled_output"}, [()]),
    "logits": ({"loss": losses.LogitMSE()}, [()]),
}


@pytest.fixture(scope="module")
def models():
    return bert(4, 12, seed=1), bert(2, 12, seed=2)


def tapped(model):
    return to_numpy(taps.tapped(model, taps.describe(model).taps)(X))


@pytest.fixture(scope="module")
def tensors(models):
    """All taps of teacher and student."""
    return [tapped(model) for model in models]


def expected(objective, pairs, tensors, weights, project=lambda one, _: one):
    """The objective by its loss, from weights of all positions."""
    once = objective.tap in PER_EXAMPLE
    weights = weights[:, 0] if once else weights * MASK
    teacher, student = (outputs[objective.tap] for outputs in tensors)
    values = [
        objective.loss(
            teacher[pair[1]] if pair else teacher,
            project(student[pair[0]], pair[0]) if pair else student,
            weights,
        )
        for pair in pairs
    ]
    return float(sum(values)) / (
        len(pairs) if objective.pair_reduction == "mean" else 1
    )


def evaluated(objective, models, weights=None, x=X):
    model = Distiller(*models, objective)
    model.compile()
    return batch_logs(model, x, labels(ROWS), weights)[objective.name]


@pytest.mark.parametrize("name", COMPARED)
def test_an_objective_is_its_loss_over_its_pairs(name, models, tensors):
    """With the weight of [CLS] for what an example has once."""
    arguments, pairs = COMPARED[name]
    if name == "relations":  # which compares models of any sizes
        models = (models[0], bert(2, 8, num_heads=4, seed=2))
        tensors = [tensors[0], tapped(models[1])]
    objective = Objective(**arguments)
    value = evaluated(objective, models, POSITIONS)
    assert value == pytest.approx(
        expected(objective, pairs, tensors, POSITIONS), rel=1e-4
    )


WEIGHTS = {
    "none": (None, [[1], [1], [1], [1]]),
    "example": (np.array([2.0, 1.0, 0.0, 0.5]), [[2], [1], [0], [0.5]]),
    "column": (np.array([[2.0], [1.0], [0.0], [0.5]]), [[2], [1], [0], [0.5]]),
    "position": (POSITIONS, POSITIONS),
    "bool": (np.array([True, False, True, True]), [[1], [0], [1], [1]]),
    "int": (np.array([1, 2, 3, 4]), [[1], [2], [3], [4]]),
}


@pytest.mark.parametrize("form", WEIGHTS)
def test_weights_of_any_form_multiply_the_padding_mask(form, models, tensors):
    given, weights = WEIGHTS[form]
    dtype = "float32" if form == "none" else "bool"
    objective = Objective(losses.EmbeddingMSE(), tap="embedding_output")
    x = X | {"padding_mask": MASK.astype(dtype)}
    weights = np.broadcast_to(weights, MASK.shape)
    assert evaluated(objective, models, given, x) == pytest.approx(
        expected(objective, [()], tensors, weights), rel=1e-4
    )


def test_the_weight_of_a_question_counts_for_each_of_its_options(models):
    objective = Objective(losses.HiddenStateMSE(), tap="pooled_output")
    assert evaluated(objective, models, np.array([1.0, 3.0])) == pytest.approx(
        evaluated(objective, models, np.array([1.0, 1.0, 3.0, 3.0])), rel=1e-6
    )


def test_weights_can_be_left_out(models):
    objective = Objective(**HIDDEN, use_sample_weight=False)
    assert evaluated(objective, models, POSITIONS) == pytest.approx(
        evaluated(objective, models), rel=1e-6
    )


@pytest.mark.parametrize(
    "projection",
    ["shared", "per_layer", Projection("per_layer", use_bias=False)],
    ids=["shared", "per_layer", "without bias"],
)
def test_projections_map_the_student_to_the_teachers_width(
    projection, models, tensors
):
    student = bert(2, 8, seed=2)
    objective = Objective(**HIDDEN, projection=projection)
    model = Distiller(models[0], student, objective)
    layers, suffixes = model.projections, ["_0", "_1", "_2"]
    if projection == "shared":
        layers, suffixes = layers * 3, [""]
    assert [layer.name for layer in model.projections] == [
        f"hidden_state_mse_projection{suffix}" for suffix in suffixes
    ]
    for layer in model.projections[:1]:
        assert len(layer.weights) == 1 + objective.projection.use_bias
        if layer.use_bias:
            layer.bias.assign(np.arange(12.0))

    def project(states, number):
        weights = [*layers[number].get_weights(), 0.0]
        return states @ weights[0] + weights[1]

    model.compile()
    found = batch_logs(model, X)["loss"]
    assert found == pytest.approx(
        expected(
            objective,
            [(0, 0), (1, 2), (2, 4)],
            [tensors[0], tapped(student)],
            np.ones_like(MASK),
            project,
        ),
        rel=1e-4,
    )


@pytest.mark.parametrize(
    "objective",
    [
        Objective(losses.SoftCrossEntropy(temperature=4.0), weight=0.5),
        Objective(
            losses.HiddenStateMSE(parity="tinybert"),
            tap="hidden_states",
            layer_map={2: 4, 1: 2},
            projection=Projection("per_layer", use_bias=False),
            include_embeddings=False,
            use_sample_weight=False,
            name="hidden",
        ),
    ],
    ids=lambda objective: objective.name,
)
def test_an_objective_survives_a_config_in_json(objective):
    config = json.loads(json.dumps(objective.get_config()))
    restored = Objective.from_config(config)
    assert restored.get_config() == objective.get_config()
    assert restored.layer_map == objective.layer_map
    assert restored.projection == objective.projection
    assert type(restored.loss) is type(objective.loss)


# Several teachers, of different widths and depths.

SHARES = (3.0, 1.0)
OF_SEVERAL = [
    Objective(losses.SoftCrossEntropy(temperature=2.0)),
    Objective(**HIDDEN, projection="shared"),
]


@pytest.fixture(scope="module")
def teachers(models):
    return [models[0], bert(2, 8, seed=3)]


def test_objectives_are_weighted_means_over_the_teachers(teachers, tmp_path):
    student = bert(2, 8, seed=2)
    both = Distiller(teachers, student, OF_SEVERAL, teacher_weights=SHARES)
    assert both.teacher == tuple(teachers)
    both.save(tmp_path / "distiller.keras")
    loaded = keras.models.load_model(tmp_path / "distiller.keras")
    assert loaded.teacher is None
    loaded.attach_teacher(teachers)
    expected = dict.fromkeys((one.name for one in OF_SEVERAL), 0.0)
    for number, share in enumerate(SHARES):
        alone = Distiller(teachers[number], student, OF_SEVERAL)
        alone.projections[0].set_weights(both.projections[number].get_weights())
        alone.compile()
        values = batch_logs(alone, X)
        for name in expected:
            expected[name] += share / sum(SHARES) * values[name]
    expected["loss"] = sum(expected.values())
    for model in (both, loaded):
        model.compile()
        assert batch_logs(model, X) == pytest.approx(expected, rel=1e-5)


def test_soft_labels_are_compared_with_the_mean_distribution(teachers):
    """The logs have the cross-entropy, less the mean of the entropies."""
    student = bert(2, 8, seed=2)
    scaled = [to_numpy(teacher(X)) / 2 for teacher in teachers]
    mean = np.mean([softmax(logits) for logits in scaled], axis=0)
    value = -np.sum(mean * log_softmax(to_numpy(student(X)) / 2), axis=1)
    value += np.mean(
        [np.sum(softmax(one) * log_softmax(one), axis=1) for one in scaled],
        axis=0,
    )
    found = evaluated(OF_SEVERAL[0], (teachers, student))
    assert found == pytest.approx(value.mean(), rel=1e-5)


def test_a_step_trains_student_and_projections_and_no_teacher(teachers):
    student = bert(2, 8, seed=2)
    model = Distiller(teachers, student, OF_SEVERAL, hard_label_weight=0.5)
    model.compile(keras.optimizers.Adam(1e-2), cross_entropy())
    before = [teacher.get_weights() for teacher in teachers]
    trained = [student, *model.projections]
    start = [layer.get_weights()[0] for layer in trained]
    model.fit(X, labels(ROWS), verbose=0)
    for teacher, weights in zip(teachers, before, strict=True):
        assert_same_weights(teacher.get_weights(), weights)
    for layer, weight in zip(trained, start, strict=True):
        assert not np.array_equal(weight, layer.get_weights()[0])
