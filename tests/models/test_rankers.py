"""Rankers: scores of candidates from an embedder and from a cross-encoder."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.encoders import encoder

from kdkit import models
from kdkit.models import DenseSettings, Pooling
from kdkit.taps import describe, tapped

LENGTH, QUERIES, CANDIDATES = 6, 4, 3
ROWS = QUERIES * (1 + CANDIDATES)


def batch(length=LENGTH, names=("token_ids", "padding_mask", "segment_ids")):
    """Queries with candidates of different lengths, padded."""
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 19, size=(ROWS, LENGTH))
    lengths = generator.integers(2, LENGTH + 1, ROWS)
    real = np.arange(length) < lengths[:, None]
    ids = np.pad(ids, ((0, 0), (0, length - LENGTH)))
    inputs = {
        "token_ids": np.where(real, ids, 0).astype("int32"),
        "padding_mask": real.astype("int32"),
        "segment_ids": np.zeros((ROWS, length), "int32"),
    }
    return {name: inputs[name] for name in names}


def make(family="bert", pooling=None):
    keras.utils.set_random_seed(0)
    backbone = encoder(family, num_classes=None)
    return models.make_embedder(backbone, pooling or Pooling())


@pytest.mark.parametrize(
    ("family", "pooling", "scale", "factor"),
    [
        ("bert", Pooling(), None, 20.0),
        ("bert", Pooling("cls", normalize=False), None, 1.0),
        ("bert", Pooling("max"), 3.0, 3.0),
        ("distil_bert", Pooling(dense=(DenseSettings(5),)), None, 20.0),
    ],
)
def test_scores_are_products_of_the_embedders_vectors(
    family, pooling, scale, factor
):
    embedder = make(family, pooling)
    ranker = models.make_ranker(embedder, CANDIDATES, scale)
    x = batch(names=embedder.input)
    vectors = np.asarray(embedder(x)).reshape(QUERIES, 1 + CANDIDATES, -1)
    expected = factor * np.einsum("qd,qcd->qc", vectors[:, 0], vectors[:, 1:])
    np.testing.assert_allclose(ranker(x), expected, atol=1e-4)
    assert not models.is_embedder(ranker)
    assert describe(ranker).num_classes == CANDIDATES
    np.testing.assert_array_equal(
        tapped(ranker, ["logits"])(x)["logits"], ranker(x)
    )


def test_a_static_embedder_has_a_ranker():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
    tokenizer = models.word_piece_tokenizer(words, lowercase=True)
    embedder = models.make_static_embedder(tokenizer, dimensions=4)
    ranker = models.make_ranker(embedder, CANDIDATES)
    vectors = np.asarray(embedder(batch())).reshape(QUERIES, 1 + CANDIDATES, -1)
    expected = 20 * np.einsum("qd,qcd->qc", vectors[:, 0], vectors[:, 1:])
    np.testing.assert_allclose(ranker(batch()), expected, atol=1e-4)
    assert describe(ranker).num_classes == CANDIDATES
    assert not models.is_embedder(ranker)


@pytest.mark.parametrize("side", ["query", "candidates"])
def test_the_gradient_reaches_both_towers(side):
    """A token that only one side has gets a gradient."""
    ranker = models.make_ranker(make(), CANDIDATES)
    x = batch()
    is_query = np.arange(ROWS) % (1 + CANDIDATES) == 0
    rows = is_query if side == "query" else ~is_query
    x["token_ids"][rows, 1] = 19
    with tf.GradientTape() as tape:
        scores = ranker(x)
        loss = tf.reduce_sum(scores[:, 0] - scores[:, 1])
    backbone = models.backbone_of(ranker)
    table = backbone.token_embedding.embeddings
    gradient = tf.convert_to_tensor(tape.gradient(loss, table.value))
    assert np.abs(gradient[19]).max() > 1e-6


def test_a_score_is_the_logit_or_the_log_odds():
    logits = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(
        models.reranker_scores(logits[:, :1]), logits[:, 0]
    )
    odds = np.exp(logits[:, 1]) / np.exp(logits[:, 0])
    np.testing.assert_allclose(models.reranker_scores(logits), np.log(odds))


@pytest.mark.parametrize(("labels", "count"), [(None, 2), ({"0": "A"}, 1)])
def test_labels_of_other_programs_checkpoints_are_counted(
    labels, count, tmp_path
):
    config = {"architectures": ["BertForSequenceClassification"]}
    if labels is not None:
        config["id2label"] = labels
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert models.places.num_classes_at(tmp_path) == count
