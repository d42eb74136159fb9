"""Objectives: arguments, pairs, weights and the sums over them."""

import json

import numpy as np
import pytest

import kdkit
from kdkit import losses
from kdkit.distillation import bind
from kdkit.distillation.objective import Projection
from kdkit.taps import ModelShape

TEACHER = ModelShape(3, 4, 12, 2, has_pooled_output=True)
STUDENT = ModelShape(3, 2, 8, 2, has_pooled_output=True)
BATCH, LENGTH = 3, 4
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])


def draw(*shape):
    return np.random.normal(size=shape).astype("float32")


def states(shape):
    return [
        draw(BATCH, LENGTH, shape.hidden_dim)
        for _ in range(shape.num_layers + 1)
    ]


def value(objective, teacher, student, mask=None, sample_weight=None, **shapes):
    """The value of an objective on given tensors of its tap."""
    (term,) = bind(
        [objective],
        0.0,
        shapes.get("teacher_shape", TEACHER),
        shapes.get("student_shape", STUDENT),
    )
    x = {} if mask is None else {"padding_mask": mask}
    numerator, denominator = term.sums(
        {objective.tap: teacher}, {objective.tap: student}, x, sample_weight
    )
    return float(numerator) / float(denominator)


def mean_square(teacher, student, weights):
    values = np.mean((teacher - student) ** 2, axis=-1)
    weights = np.broadcast_to(weights, values.shape)
    return np.sum(values * weights) / np.sum(weights)


SAME_WIDTH = {"student_shape": ModelShape(3, 2, 12, 2, True)}


@pytest.mark.parametrize("include_embeddings", [True, False])
def test_hidden_states_are_summed_over_the_pairs(include_embeddings):
    objective = kdkit.Objective(
        losses.HiddenStateMSE(),
        tap="hidden_states",
        layer_map={1: 1, 2: 3},
        include_embeddings=include_embeddings,
    )
    teacher = states(TEACHER)
    student = states(SAME_WIDTH["student_shape"])
    pairs = [(1, 1), (2, 3)] + [(0, 0)] * include_embeddings
    expected = sum(
        mean_square(teacher[of_teacher], student[of_student], MASK)
        for of_student, of_teacher in pairs
    )
    np.testing.assert_allclose(
        value(objective, teacher, student, MASK, **SAME_WIDTH),
        expected,
        rtol=1e-5,
    )


def test_pairs_are_averaged_where_asked():
    teacher, student = states(TEACHER), states(SAME_WIDTH["student_shape"])
    total, mean = (
        value(
            kdkit.Objective(
                losses.HiddenStateMSE(),
                tap="hidden_states",
                pair_reduction=reduction,
            ),
            teacher,
            student,
            **SAME_WIDTH,
        )
        for reduction in ("sum", "mean")
    )
    assert total == pytest.approx(3 * mean)  # 0 and two blocks


def test_attention_blocks_count_from_one():
    objective = kdkit.Objective(losses.AttentionMSE(), tap="attention_logits")
    teacher = [draw(BATCH, 2, LENGTH, LENGTH) for _ in range(4)]
    student = [draw(BATCH, 2, LENGTH, LENGTH) for _ in range(2)]
    pairs = MASK[:, None, :, None] * MASK[:, None, None, :]
    pairs = np.broadcast_to(pairs, teacher[0].shape)
    expected = sum(
        np.sum((teacher[of_teacher] - student[of_student]) ** 2 * pairs)
        for of_student, of_teacher in ((0, 1), (1, 3))
    ) / np.sum(pairs)
    np.testing.assert_allclose(
        value(objective, teacher, student, MASK), expected, rtol=1e-5
    )


@pytest.mark.parametrize("sharing", ["shared", "per_layer"])
def test_projection_maps_the_student_before_the_comparison(sharing):
    objective = kdkit.Objective(
        losses.HiddenStateMSE(), tap="hidden_states", projection=sharing
    )
    (term,) = bind([objective], 0.0, TEACHER, STUDENT)
    teacher, student = states(TEACHER), states(STUDENT)
    numerator, denominator = term.sums(
        {"hidden_states": teacher},
        {"hidden_states": student},
        {"padding_mask": MASK},
        None,
    )
    assert list(term.projections) == [0, 1, 2]
    expected = sum(
        mean_square(
            teacher[of_teacher],
            student[of_student] @ term.projections[of_student].kernel.numpy(),
            MASK,
        )
        for of_student, of_teacher in ((0, 0), (1, 2), (2, 4))
    )
    np.testing.assert_allclose(numerator / denominator, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("sample_weight", "weights"),
    [
        (np.array([2.0, 1.0, 0.0]), MASK * [[2], [1], [0]]),
        (np.array([[2.0], [1.0], [0.0]]), MASK * [[2], [1], [0]]),
        (np.arange(12.0).reshape(3, 4), MASK * np.arange(12).reshape(3, 4)),
        (np.array([True, False, True]), MASK * [[1], [0], [1]]),
        (np.array([1, 2, 3]), MASK * [[1], [2], [3]]),
    ],
    ids=["example", "column", "position", "bool", "int"],
)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_sample_weights_multiply_the_padding_mask(
    sample_weight, weights, dtype
):
    objective = kdkit.Objective(losses.EmbeddingMSE(), tap="embedding_output")
    teacher, student = draw(2, BATCH, LENGTH, 12)
    np.testing.assert_allclose(
        value(
            objective,
            teacher,
            student,
            MASK.astype(dtype),
            sample_weight,
            **SAME_WIDTH,
        ),
        mean_square(teacher, student, weights),
        rtol=1e-5,
    )


@pytest.mark.parametrize("tap", ["logits", "pooled_output"])
def test_padding_does_not_matter_to_one_vector_per_example(tap):
    loss = losses.LogitMSE() if tap == "logits" else losses.HiddenStateMSE()
    teacher, student = draw(2, BATCH, 12)
    objective = kdkit.Objective(loss, tap=tap)
    weights = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(
        value(objective, teacher, student, MASK, weights, **SAME_WIDTH),
        mean_square(teacher, student, weights),
        rtol=1e-5,
    )
    # A weight per position: that of [CLS].
    positions = np.stack([weights, weights + 5, weights, weights], axis=1)
    np.testing.assert_allclose(
        value(objective, teacher, student, MASK, positions, **SAME_WIDTH),
        mean_square(teacher, student, weights),
        rtol=1e-5,
    )


def test_sample_weights_are_the_mask_of_logits_per_token():
    objective = kdkit.Objective(losses.LogitMSE())
    teacher, student = draw(2, BATCH, LENGTH, 3)
    np.testing.assert_allclose(
        value(objective, teacher, student, np.ones_like(MASK), MASK),
        mean_square(teacher, student, MASK),
        rtol=1e-5,
    )


def test_cls_states_take_the_map_without_embeddings():
    objective = kdkit.Objective(
        losses.PatienceMSE(), tap="cls_states", layer_map="skip"
    )
    (term,) = bind([objective], 0.0, TEACHER, SAME_WIDTH["student_shape"])
    assert term.pairs == ((1, 2),)


@pytest.mark.parametrize(
    "objective",
    [
        kdkit.Objective(losses.SoftCrossEntropy(temperature=4.0), weight=0.5),
        kdkit.Objective(
            losses.HiddenStateMSE(parity="tinybert"),
            tap="hidden_states",
            layer_map={2: 4, 1: 2},
            projection=Projection("per_layer", use_bias=False),
            include_embeddings=False,
            name="hidden",
        ),
    ],
)
def test_objective_survives_a_config_in_json(objective):
    config = json.loads(json.dumps(objective.get_config()))
    restored = kdkit.Objective.from_config(config)
    assert restored.get_config() == objective.get_config()
    assert restored.layer_map == objective.layer_map
    assert restored.projection == objective.projection
    assert type(restored.loss) is type(objective.loss)


def test_relations_need_neither_equal_widths_nor_equal_heads():
    student = ModelShape(3, 2, 8, 4)
    objective = kdkit.Objective(losses.RelationKLDivergence(4), "queries")
    assert bind([objective], 0.0, TEACHER, student)


def test_sample_weights_can_be_left_out():
    teacher, student = states(TEACHER), states(SAME_WIDTH["student_shape"])
    objective = kdkit.Objective(
        losses.HiddenStateMSE(), tap="hidden_states", use_sample_weight=False
    )
    weights = np.array([[0, 1, 0, 0]] * BATCH)
    np.testing.assert_allclose(
        value(objective, teacher, student, MASK, weights, **SAME_WIDTH),
        value(objective, teacher, student, MASK, **SAME_WIDTH),
    )
    restored = kdkit.Objective.from_config(objective.get_config())
    assert not restored.use_sample_weight
