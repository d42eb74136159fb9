"""Embedders with principal components, and distillation between embedders."""

import numpy as np
import pytest
from kit.encoders import encoder
from sklearn.decomposition import PCA

import kdkit
from kdkit import losses, models
from kdkit.errors import UsageError
from kdkit.taps import tapped

TEXTS, LENGTH, WIDTH = 40, 6, 16
IDS = np.random.default_rng(0).integers(5, 20, size=(TEXTS, LENGTH))
BATCH = {
    "token_ids": IDS.astype("int32"),
    "padding_mask": np.ones((TEXTS, LENGTH), "int32"),
    "segment_ids": np.zeros((TEXTS, LENGTH), "int32"),
}
FEW = {name: array[:5] for name, array in BATCH.items()}


@pytest.fixture(scope="module")
def embedder():
    return models.make_embedder(encoder("bert", num_classes=None))


@pytest.fixture(scope="module")
def vectors(embedder):
    return np.asarray(embedder(BATCH))


def units(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize("dimensions", [1, 5, WIDTH])
def test_reduced_vectors_are_those_of_scikit_learn(
    embedder, vectors, dimensions
):
    reduced = models.reduce_width(embedder, dimensions, vectors)
    components = PCA(svd_solver="full").fit(vectors).components_[:dimensions]
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(dimensions), largest])
    np.testing.assert_allclose(
        reduced(BATCH),
        units(vectors @ (signs[:, None] * components).T),
        atol=1e-4,
    )
    assert models.embedding_width(reduced) == dimensions
    assert reduced.layers[-1] is models.embedders.pooling_model(reduced)
    assert models.pooling_of(reduced) == models.Pooling(
        dense=(models.DenseSettings(dimensions, use_bias=False),)
    )


def test_earlier_dense_layers_stay_and_no_layer_is_changed(embedder):
    pooling = models.Pooling(
        "cls", False, (models.DenseSettings(6, activation="tanh"),)
    )
    before = models.make_embedder(models.backbone_of(embedder), pooling)
    whole = np.asarray(before(BATCH))
    reduced = models.reduce_width(before, 2, whole)
    _, added = models.dense_layers(reduced)
    np.testing.assert_allclose(
        reduced(BATCH), whole @ np.asarray(added.kernel), atol=1e-5
    )
    np.testing.assert_array_equal(before(BATCH), whole)
    twice = models.reduce_width(reduced, 1, reduced(BATCH))
    assert len(models.dense_layers(twice)) == 3


@pytest.fixture(scope="module")
def student():
    backbone = encoder("bert", num_classes=None, seed=1, hidden_dim=8)
    return models.make_embedder(backbone)


@pytest.fixture(scope="module")
def teacher(embedder, vectors):
    return models.reduce_width(embedder, 8, vectors)


def objective(loss):
    return kdkit.Objective(loss, tap="sentence_embedding")


def test_embedders_of_two_widths_are_distilled(teacher, student):
    weights = np.array([1.0, 0.0, 2.0, 1.0, 0.0])
    compared = [
        losses.HiddenStateMSE(),
        losses.HiddenStateCosine(),
        losses.SimilarityKLDivergence(),
        losses.InBatchContrastive(),
        losses.Matryoshka("similarity_kl_divergence", (8, 4)),
    ]
    distiller = kdkit.Distiller(teacher, student, map(objective, compared))
    distiller.compile("sgd")
    before = tapped(student, ["sentence_embedding"])(FEW)["sentence_embedding"]
    expected = {
        loss.name: float(loss(teacher(FEW), before, weights))
        for loss in compared
    }
    logs = distiller.train_on_batch(FEW, None, weights, return_dict=True)
    for name, value in expected.items():
        assert logs[name] == pytest.approx(value, rel=1e-4), name
    after = tapped(student, ["sentence_embedding"])(FEW)["sentence_embedding"]
    assert np.abs(np.asarray(after) - np.asarray(before)).max() > 0
    assert not np.isnan(np.asarray(after)).any()


def test_other_losses_of_unequal_widths_are_refused(embedder, student):
    with pytest.raises(UsageError, match="different sizes: 16"):
        kdkit.Distiller(
            embedder, student, [objective(losses.HiddenStateCosine())]
        )
