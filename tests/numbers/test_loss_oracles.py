"""Every loss against its equation in NumPy, and each reading of the code."""

import keras
import numpy as np
import pytest
from kit.backend import gradient
from kit.helpers import log_softmax, softmax, to_numpy, units

from kdkit import losses

GENERATOR = np.random.default_rng(0)
BATCH, LENGTH, HEADS, WIDTH, CLASSES = 3, 5, 2, 4, 7
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
WEIGHTS = np.array([0.5, 2.0, 1.0])


def tensors(*shape):
    return GENERATOR.normal(size=(2, *shape)) * 2


def weighted_mean(values, weights):
    weights = np.broadcast_to(weights, values.shape)
    return np.sum(values * weights) / np.sum(weights)


def mean_over_units(teacher, student):
    return np.mean((teacher - student) ** 2, axis=-1)


@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("parity", [None, "tinybert"])
def test_soft_cross_entropy_matches_numpy(temperature, scale, parity):
    teacher, student = tensors(BATCH, CLASSES)
    values = -np.sum(
        softmax(teacher / temperature) * log_softmax(student / temperature),
        axis=-1,
    )
    if scale:
        values = values * temperature**2
    if parity == "tinybert":
        values = values / CLASSES
    loss = losses.SoftCrossEntropy(temperature, scale, parity)
    np.testing.assert_allclose(
        loss(teacher, student), np.mean(values), rtol=1e-5
    )
    np.testing.assert_allclose(
        loss(teacher, student, WEIGHTS),
        weighted_mean(values, WEIGHTS),
        rtol=1e-5,
    )


@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize("scale", [False, True])
def test_soft_binary_cross_entropy_matches_numpy(temperature, scale):
    teacher, student = tensors(BATCH, LENGTH, CLASSES)
    of_teacher, of_student = (
        1 / (1 + np.exp(-logits / temperature)) for logits in (teacher, student)
    )
    values = -np.mean(
        of_teacher * np.log(of_student)
        + (1 - of_teacher) * np.log(1 - of_student),
        axis=-1,
    )
    if scale:
        values = values * temperature**2
    loss = losses.SoftBinaryCrossEntropy(temperature, scale)
    np.testing.assert_allclose(loss(teacher, student), values.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        loss(teacher, student, MASK), weighted_mean(values, MASK), rtol=1e-5
    )


def test_soft_binary_cross_entropy_of_a_sure_teacher_is_that_of_labels():
    labels = GENERATOR.integers(2, size=(BATCH, CLASSES))
    student = GENERATOR.normal(size=(BATCH, CLASSES))
    np.testing.assert_allclose(
        losses.SoftBinaryCrossEntropy()(200.0 * labels - 100.0, student),
        keras.losses.BinaryCrossentropy(from_logits=True)(labels, student),
        rtol=1e-5,
    )


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("parity", [None, "pkd"])
def test_logit_kl_divergence_matches_numpy(temperature, parity):
    teacher, student = tensors(BATCH, LENGTH, CLASSES)
    log_teacher = log_softmax(teacher / temperature)
    log_student = log_softmax(student / temperature)
    values = np.exp(log_teacher) * (log_teacher - log_student)
    values = values.mean(-1) if parity == "pkd" else values.sum(-1)
    values = values * temperature**2
    loss = losses.LogitKLDivergence(temperature, parity)
    np.testing.assert_allclose(loss(teacher, student), values.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        loss(teacher, student, MASK), weighted_mean(values, MASK), rtol=1e-5
    )


def test_logit_mse_matches_numpy():
    teacher, student = tensors(BATCH, CLASSES)
    values = mean_over_units(teacher, student)
    np.testing.assert_allclose(
        losses.LogitMSE()(teacher, student, WEIGHTS),
        weighted_mean(values, WEIGHTS),
        rtol=1e-5,
    )


@pytest.mark.parametrize("top_k", [1, 3, CLASSES - 1, CLASSES, 99])
def test_first_classes_stand_for_themselves_and_the_others_are_one(top_k):
    teacher, student = tensors(BATCH, LENGTH, CLASSES)
    p, q = softmax(teacher / 2), softmax(student / 2)
    order = np.argsort(-teacher, axis=-1)
    p, q = (np.take_along_axis(one, order, -1) for one in (p, q))
    expected = np.sum(p * np.log(p / q), -1)
    whole = 4 * expected.mean()
    if top_k < CLASSES:
        first = np.sum((p * np.log(p / q))[..., :top_k], -1)
        others = [one[..., top_k:].sum(-1) for one in (p, q)]
        expected = first + others[0] * np.log(others[0] / others[1])
    loss = losses.LogitKLDivergence(temperature=2.0, top_k=top_k)
    found = float(loss(teacher, student))
    assert found == pytest.approx(4 * expected.mean(), rel=1e-5)
    assert found <= whole * (1 + 1e-6)
    if top_k < CLASSES:
        # Of a teacher of which only these were kept, the same.
        top = losses.top_classes(teacher, top_k, temperature=2.0)
        assert top.shape == (BATCH, LENGTH, 2 * top_k + 1)
        for weights in (None, MASK):
            value, count = loss.top_sums(top, student, weights)
            assert float(value / count) == pytest.approx(
                float(loss(teacher, student, weights)), rel=1e-6
            )
        # Rounded in a cache, their sum is not 1.
        rounded = to_numpy(top) + 0.5 * (np.arange(2 * top_k + 1) <= top_k)
        value, count = loss.top_sums(rounded, student)
        assert float(value / count) == pytest.approx(found, rel=1e-5)
    # All probability on the first class: nothing of the others is left.
    sure = np.where(np.arange(CLASSES) == 2, 500.0, -500.0)[np.newaxis]
    assert float(loss(sure, sure)) == pytest.approx(0.0, abs=1e-6)


def test_top_classes_are_probabilities_and_numbers_of_classes():
    logits, _ = tensors(BATCH, CLASSES)
    found = to_numpy(losses.top_classes(logits, 2, temperature=0.5))
    p = softmax(logits / 0.5)
    order = np.argsort(-p, axis=-1)[:, :2]
    np.testing.assert_array_equal(found[:, 3:], order)
    first = np.take_along_axis(p, order, -1)
    np.testing.assert_allclose(np.exp(found[:, :2]), first, rtol=1e-5)
    np.testing.assert_allclose(
        np.exp(found[:, 2]), 1 - first.sum(-1), rtol=1e-4
    )
    # Of equal ones the first are taken, and the others are the others.
    equal = to_numpy(losses.top_classes(np.zeros((1, 5)), 2))
    np.testing.assert_allclose(
        equal[:, :3], np.log([[1 / 5, 1 / 5, 3 / 5]]), rtol=1e-5
    )
    if keras.backend.backend() != "torch":
        np.testing.assert_array_equal(equal[:, 3:], [[0, 1]])


@pytest.mark.parametrize("loss", [losses.HiddenStateMSE, losses.EmbeddingMSE])
def test_state_mse_is_a_mean_over_units_and_real_positions(loss):
    teacher, student = tensors(BATCH, LENGTH, WIDTH)
    values = mean_over_units(teacher, student)
    np.testing.assert_allclose(
        loss()(teacher, student, MASK), weighted_mean(values, MASK), rtol=1e-5
    )
    np.testing.assert_allclose(
        loss()(teacher, student, WEIGHTS),
        weighted_mean(values, WEIGHTS[:, None]),
        rtol=1e-5,
    )


def test_hidden_state_mse_of_tinybert_counts_padding_too():
    teacher, student = tensors(BATCH, LENGTH, WIDTH)
    loss = losses.HiddenStateMSE(parity="tinybert")
    # The authors' code: torch's MSELoss over the whole tensor.
    np.testing.assert_allclose(
        loss(teacher, student, MASK),
        np.mean((teacher - student) ** 2),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        loss(teacher, student, MASK * WEIGHTS[:, None]),
        weighted_mean(mean_over_units(teacher, student), WEIGHTS[:, None]),
        rtol=1e-5,
    )


def test_hidden_state_cosine_matches_numpy():
    teacher, student = tensors(BATCH, LENGTH, WIDTH)
    values = 1 - np.sum(units(teacher) * units(student), axis=-1)
    np.testing.assert_allclose(
        losses.HiddenStateCosine()(teacher, student, MASK),
        weighted_mean(values, MASK),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("parity", "reduce"), [(None, np.sum), ("pkd", np.mean)]
)
def test_patience_mse_matches_numpy(parity, reduce):
    teacher, student = tensors(BATCH, WIDTH)
    values = reduce((units(student) - units(teacher)) ** 2, axis=-1)
    loss = losses.PatienceMSE(parity)
    np.testing.assert_allclose(loss(teacher, student), values.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        loss(teacher, student, WEIGHTS),
        weighted_mean(values, WEIGHTS),
        rtol=1e-5,
    )


def test_attention_mse_counts_real_queries_and_keys():
    teacher, student = tensors(BATCH, HEADS, LENGTH, LENGTH)
    values = (teacher - student) ** 2
    pairs = MASK[:, None, :, None] * MASK[:, None, None, :]
    loss = losses.AttentionMSE()
    np.testing.assert_allclose(
        loss(teacher, student, MASK), weighted_mean(values, pairs), rtol=1e-5
    )
    np.testing.assert_allclose(
        loss(teacher, student, MASK * WEIGHTS[:, None]),
        weighted_mean(values, pairs * WEIGHTS[:, None, None, None]),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        loss(teacher, student, WEIGHTS),
        weighted_mean(values, WEIGHTS[:, None, None, None]),
        rtol=1e-5,
    )


@pytest.mark.parametrize("scale", [1.0, 150.0])
def test_attention_mse_of_tinybert_matches_the_authors_code(scale):
    teacher, student = scale * tensors(BATCH, HEADS, LENGTH, LENGTH)
    teacher[0, 0, 0, 0] = -100.0
    # Their scores come with the mask added; those of -100 and less are 0, of
    # padded keys and, where scores are that large, of real ones.
    added = -10000.0 * (1 - MASK[:, None, None, :])
    theirs = [
        np.where(scores + added <= -1e2, 0.0, scores + added)
        for scores in (teacher, student)
    ]
    assert ((teacher < -1e2) & (added == 0)).any() == (scale > 1)
    loss = losses.AttentionMSE(parity="tinybert")
    expected = np.mean((theirs[0] - theirs[1]) ** 2)
    np.testing.assert_allclose(loss(teacher, student, MASK), expected, 1e-5)
    zeroed = [np.where(one <= -1e2, 0.0, one) for one in (teacher, student)]
    np.testing.assert_allclose(
        loss(teacher, student),  # without padding
        np.mean((zeroed[0] - zeroed[1]) ** 2),
        rtol=1e-5,
    )


def test_attention_mse_of_tinybert_weighs_examples():
    teacher, student = tensors(BATCH, HEADS, LENGTH, LENGTH)
    values = (teacher - student) ** 2 * MASK[:, None, None, :]
    np.testing.assert_allclose(
        losses.AttentionMSE(parity="tinybert")(
            teacher, student, MASK * WEIGHTS[:, None]
        ),
        weighted_mean(values, WEIGHTS[:, None, None, None]),
        rtol=1e-5,
    )


def relation(vectors, num_relation_heads, mask):
    """MiniLMv2's equation 6, one example, head and query at a time."""
    flat = vectors.reshape(BATCH, LENGTH, -1)
    head_dim = flat.shape[-1] // num_relation_heads
    result = np.zeros((BATCH, num_relation_heads, LENGTH, LENGTH))
    for example in range(BATCH):
        real = mask[example].astype(bool)
        for head in range(num_relation_heads):
            part = flat[example, :, head * head_dim : (head + 1) * head_dim]
            scores = part @ part.T / np.sqrt(head_dim)
            result[example, head][:, real] = softmax(scores[:, real])
    return result


def divergences(teacher, student, num_relation_heads, mask):
    """The KL divergence of every example, head and query."""
    real_pairs = mask[:, None, :, None] * mask[:, None, None, :]
    of_teacher = relation(teacher, num_relation_heads, mask)
    of_student = relation(student, num_relation_heads, mask)
    result = np.zeros_like(of_teacher)
    np.divide(of_teacher, of_student, result, where=real_pairs == 1)
    np.log(result, result, where=real_pairs == 1)
    return (of_teacher * result).sum(-1)


def vectors_of_two_widths():
    return (
        GENERATOR.normal(size=(BATCH, LENGTH, 3, 4)),
        GENERATOR.normal(size=(BATCH, LENGTH, 2, 4)),
    )


def test_relation_kl_divergence_is_a_mean_per_text_as_the_paper_prints_it():
    teacher, student = vectors_of_two_widths()
    loss = losses.RelationKLDivergence(4)
    values = divergences(teacher, student, 4, MASK)
    # 1 / (A_r |x|) of the sum over heads and positions, text by text.
    of_texts = values.sum((1, 2)) / (4 * MASK.sum(1))
    assert abs(of_texts.mean() - weighted_mean(values, MASK[:, None])) > 1e-3
    np.testing.assert_allclose(
        loss(teacher, student, MASK), of_texts.mean(), rtol=1e-5
    )
    np.testing.assert_allclose(
        loss(teacher, student, MASK * WEIGHTS[:, None]),
        weighted_mean(of_texts, WEIGHTS),
        rtol=1e-5,
    )


def test_relation_kl_divergence_of_all_positions_matches_numpy():
    teacher, student = vectors_of_two_widths()
    loss = losses.RelationKLDivergence(4, mean_over="positions")
    values = divergences(teacher, student, 4, MASK)
    for weights in (MASK, MASK * WEIGHTS[:, None]):
        np.testing.assert_allclose(
            loss(teacher, student, weights),
            weighted_mean(values, weights[:, None, :]),
            rtol=1e-5,
        )


@pytest.mark.parametrize("mean_over", ["texts", "positions"])
def test_relations_of_texts_of_one_length_have_one_mean(mean_over):
    teacher, student = vectors_of_two_widths()
    loss = losses.RelationKLDivergence(4, mean_over=mean_over)
    values = divergences(teacher, student, 4, np.ones_like(MASK))
    np.testing.assert_allclose(loss(teacher, student), values.mean(), 1e-5)
    for weights in (WEIGHTS, WEIGHTS[:, None]):
        np.testing.assert_allclose(
            loss(teacher, student, weights),
            weighted_mean(values, WEIGHTS[:, None, None]),
            rtol=1e-5,
        )


@pytest.mark.parametrize("mean_over", ["texts", "positions"])
def test_relation_sums_of_parts_of_a_batch_add_up(mean_over):
    teacher, student = vectors_of_two_widths()
    loss = losses.RelationKLDivergence(4, mean_over=mean_over)
    parts = [
        loss.sums(teacher[part], student[part], MASK[part])
        for part in (slice(0, 1), slice(1, None))
    ]
    numerator, denominator = np.sum(parts, axis=0)
    np.testing.assert_allclose(
        numerator / denominator, loss(teacher, student, MASK), rtol=1e-5
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.9])
def test_smoothed_cross_entropy_matches_numpy(label_smoothing):
    labels = GENERATOR.integers(CLASSES, size=(BATCH, LENGTH))
    logits = 3 * GENERATOR.normal(size=(BATCH, LENGTH, CLASSES))
    targets = (1 - label_smoothing) * np.eye(CLASSES)[labels]
    targets += label_smoothing / CLASSES
    values = -np.sum(targets * log_softmax(logits), axis=-1)
    weights = MASK * WEIGHTS[:, None]

    def loss(reduction):
        return losses.SmoothedCrossEntropy(label_smoothing, reduction=reduction)

    for reduction, expected in (
        ("sum_over_batch_size", np.mean(weights * values)),
        ("mean_with_sample_weight", weighted_mean(values, weights)),
    ):
        made = loss(reduction)
        np.testing.assert_allclose(made(labels, logits), values.mean(), 1e-5)
        np.testing.assert_allclose(
            made(labels, logits, weights), expected, 1e-5
        )
        restored = keras.losses.deserialize(keras.losses.serialize(made))
        assert restored.get_config() == made.get_config()
    np.testing.assert_allclose(
        gradient(
            lambda logits: loss("sum")(labels, logits), logits.astype("float32")
        ),
        softmax(logits) - targets,
        atol=1e-5,
    )
    if not label_smoothing:
        keras_loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True
        )
        assert float(loss("sum_over_batch_size")(labels, logits)) == float(
            keras_loss(labels, logits)
        )
