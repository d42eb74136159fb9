"""Losses between sentence embeddings against their equations in NumPy."""

import keras
import numpy as np
import pytest
from kit.backend import gradient
from kit.helpers import softmax

import kdkit
from kdkit import losses
from kdkit.losses import (
    InBatchContrastive,
    MarginMSE,
    Matryoshka,
    SimilarityKLDivergence,
)

GENERATOR = np.random.default_rng(0)
TEXTS = 5
WEIGHTS = np.array([0.5, 0.0, 2.0, 1.0, 0.0])
REAL = WEIGHTS > 0
ALL = np.ones(TEXTS, bool)
TEACHER = GENERATOR.normal(size=(TEXTS, 8)) + 0.5
STUDENT = GENERATOR.normal(size=(TEXTS, 4)) + 0.5
# One with weights, and so without two of the texts.
every_weighting = pytest.mark.parametrize(
    ("weights", "real"), [(None, ALL), (WEIGHTS, REAL)], ids=["all", "weighted"]
)


def cosines(first, second):
    return np.array(
        [
            [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in second]
            for a in first
        ]
    )


def divergences(teacher, student, temperature, real):
    """The KL divergence of each text, compared with the other real ones."""
    values = np.zeros(TEXTS)
    for text in range(TEXTS):
        others = real & (np.arange(TEXTS) != text)
        of_teacher, of_student = (
            softmax(cosines(vectors, vectors)[text, others] / temperature)
            for vectors in (teacher, student)
        )
        values[text] = of_teacher @ np.log(of_teacher / of_student)
    return values


def cross_entropies(first, second, temperature, real):
    """The cross-entropy of each text's partner among the real ones."""
    scores = cosines(first, second) / temperature
    return np.array(
        [
            np.log(np.exp(scores[text, real]).sum()) - scores[text, text]
            for text in range(TEXTS)
        ]
    )


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@every_weighting
def test_similarity_kl_divergence_matches_numpy(temperature, weights, real):
    values = divergences(TEACHER, STUDENT, temperature, real)
    np.testing.assert_allclose(
        SimilarityKLDivergence(temperature)(TEACHER, STUDENT, weights),
        np.average(values, weights=weights),
        rtol=1e-4,
    )


@pytest.mark.parametrize("symmetric", [False, True])
@every_weighting
def test_in_batch_contrastive_matches_numpy(symmetric, weights, real):
    first, second = TEACHER[:, :4], STUDENT
    values = cross_entropies(first, second, 0.1, real)
    if symmetric:
        values = (values + cross_entropies(second, first, 0.1, real)) / 2
    np.testing.assert_allclose(
        InBatchContrastive(0.1, symmetric)(first, second, weights),
        np.average(values, weights=weights),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    "loss",
    [SimilarityKLDivergence(), InBatchContrastive()],
    ids=lambda x: x.name,
)
def test_a_text_without_others_does_not_count(loss):
    alone = [0, 1, 0, 0, 0]
    vectors = TEACHER[:, :4]
    assert [float(one) for one in loss.sums(vectors, STUDENT, alone)] == [0, 0]
    slope = gradient(
        lambda student: loss(vectors, student, alone), STUDENT.astype("float32")
    )
    np.testing.assert_array_equal(slope, 0.0)
    weights = keras.ops.convert_to_tensor(alone, "float32")
    loss(vectors, STUDENT, weights)
    np.testing.assert_array_equal(weights, alone)


def test_margin_mse_matches_numpy_query_by_query():
    teacher, student = GENERATOR.normal(size=(2, 3, 4))
    values = [
        np.mean([((t[0] - t[c]) - (s[0] - s[c])) ** 2 for c in (1, 2, 3)])
        for t, s in zip(teacher, student, strict=True)
    ]
    weights = [1.0, 0.0, 3.0]
    loss = MarginMSE()
    np.testing.assert_allclose(loss(teacher, student), np.mean(values), 1e-5)
    np.testing.assert_allclose(
        loss(teacher, student, weights),
        np.average(values, weights=weights),
        rtol=1e-5,
    )
    # The scale of scores counts, their offset does not.
    offsets = GENERATOR.normal(size=(3, 1))
    assert float(loss(teacher, teacher + offsets)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("factors", [None, (1.0, 0.25)])
@every_weighting
def test_matryoshka_compares_prefixes_of_both_unit_by_unit(
    factors, weights, real
):
    teacher = TEACHER[:, :4]
    expected = sum(
        factor
        * np.average(
            1 - np.diag(cosines(teacher[:, :width], STUDENT[:, :width])),
            weights=weights,
        )
        for width, factor in zip((4, 2), factors or (1, 1), strict=True)
    )
    loss = Matryoshka(losses.HiddenStateCosine(), (4, 2), factors)
    np.testing.assert_allclose(
        loss(teacher, STUDENT, weights), expected, rtol=1e-5
    )


@every_weighting
def test_matryoshka_compares_similarities_of_prefixes_with_the_whole(
    weights, real
):
    expected = sum(
        np.average(
            divergences(TEACHER, STUDENT[:, :width], 0.5, real),
            weights=weights,
        )
        for width in (4, 2)
    )
    loss = Matryoshka(SimilarityKLDivergence(0.5), (4, 2))
    np.testing.assert_allclose(
        loss(TEACHER, STUDENT, weights), expected, rtol=1e-4
    )


def test_matryoshka_is_made_from_a_configuration():
    inner = {"name": "similarity_kl_divergence", "temperature": 0.1}
    loss = losses.get_loss(
        {"name": "matryoshka", "loss": inner, "dimensions": [4, 2]}
    )
    assert loss == Matryoshka(SimilarityKLDivergence(0.1), (4, 2))
    objective = kdkit.Objective(loss, tap="sentence_embedding")
    config = keras.saving.serialize_keras_object(objective)["config"]
    assert kdkit.Objective.from_config(config) == objective
