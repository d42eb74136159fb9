"""Embedders and rankers: vectors, widths and scores, against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from kit.encoders import ENCODERS, encoder
from kit.foreign import batch, foreign_model, largest, outputs, save_foreign
from kit.helpers import units
from kit.references import reference

import kdkit
from kdkit import losses, models
from kdkit.models import DenseSettings, Pooling
from kdkit.models.embedders import dense_layers, reranker_scores
from kdkit.taps import describe, tapped

IDS = np.array([[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 0, 0], [5, 6, 0, 0, 0, 0]])
BATCH = {
    "token_ids": IDS.astype("int32"),
    "padding_mask": (IDS > 0).astype("int32"),
    "segment_ids": np.zeros_like(IDS, "int32"),
}
POOLED = {
    "mean": lambda states, real: (
        (states * real[..., None]).sum(1) / real.sum(1)[:, None]
    ),
    "cls": lambda states, real: states[:, 0],
    "max": lambda states, real: np.where(
        real[..., None] == 1, states, -np.inf
    ).max(1),
}
DENSE = (DenseSettings(5, activation="tanh"), DenseSettings(4))


def inputs_of(model, batch=BATCH):
    return {name: batch[name] for name in model.input}


def vectors(model, batch=BATCH):
    return np.asarray(model(inputs_of(model, batch)))


def make(family="bert", pooling=None, **sizes):
    return models.make_embedder(
        encoder(family, None, **sizes), pooling or Pooling()
    )


@pytest.mark.parametrize("family", ENCODERS)
def test_the_vector_is_the_pooled_states(family):
    backbone = encoder(family, num_classes=None)
    outputs = backbone(inputs_of(backbone))
    if isinstance(outputs, dict):
        outputs = outputs["sequence_output"]
    for mode in models.POOLINGS:
        expected = POOLED[mode](np.asarray(outputs), BATCH["padding_mask"])
        plain = models.make_embedder(backbone, Pooling(mode, False))
        np.testing.assert_allclose(vectors(plain), expected, atol=1e-5)
        unit = models.make_embedder(backbone, Pooling(mode))
        np.testing.assert_allclose(vectors(unit), units(expected), atol=1e-5)
        assert models.pooling_of(unit) == Pooling(mode)
        assert unit.output_shape[-1] == 16
        assert describe(unit).embedding_width == 16


def test_dense_layers_are_between_pooling_and_normalization():
    model = make(pooling=Pooling("cls", dense=DENSE))
    backbone = models.backbone_of(model)
    first, second = dense_layers(model)
    state = np.asarray(backbone(inputs_of(backbone))["sequence_output"])[:, 0]
    expected = np.tanh(state @ first.kernel + first.bias)
    expected = units(expected @ second.kernel + second.bias)
    np.testing.assert_allclose(vectors(model), expected, atol=1e-5)
    assert models.pooling_of(model) == Pooling("cls", dense=DENSE)


@pytest.mark.parametrize("dense", [(), DENSE], ids=["no dense", "dense"])
def test_an_embedder_computes_in_half_precision(dense):
    model = make(pooling=Pooling(dense=dense))
    half = models.in_policy(model, "mixed_bfloat16")
    assert half.compute_dtype == "bfloat16"
    assert len(half.trainable_weights) == len(model.trainable_weights)
    assert models.pooling_of(half) == Pooling(dense=dense)
    found = keras.ops.cast(half(inputs_of(half)), "float32")
    assert np.abs(found - vectors(model)).max() < 0.05


@pytest.mark.parametrize("family", ["bert", "distil_bert"])
def test_the_tap_is_the_output_and_finite_without_tokens(family):
    model = make(family)
    assert describe(model).num_classes is None
    for taps in (["sentence_embedding"], ["sentence_embedding", "cls_states"]):
        found = tapped(model, taps)(BATCH)["sentence_embedding"]
        np.testing.assert_allclose(found, vectors(model), atol=1e-6)
    empty = {**BATCH, "padding_mask": np.zeros_like(BATCH["padding_mask"])}
    assert np.isfinite(vectors(model, empty)).all()


def test_layers_are_dropped():
    teacher = make(pooling=Pooling("max", dense=DENSE), num_layers=3)
    student = models.dropped_layers(teacher, [1, 3])
    assert models.pooling_of(student) == models.pooling_of(teacher)
    ours, theirs = (
        models.backbone_of(one).transformer_layers for one in (student, teacher)
    )
    for block, source in zip(ours, theirs[::2], strict=True):
        for one, two in zip(block.weights, source.weights, strict=True):
            np.testing.assert_array_equal(one, two)
    same = models.dropped_layers(teacher, [1, 2, 3])
    np.testing.assert_allclose(vectors(same), vectors(teacher), atol=1e-6)


def many(count=40):
    """A batch of texts without padding."""
    ids = np.random.default_rng(0).integers(
        5, 20, size=(count, 6), dtype="int32"
    )
    zeros = np.zeros_like(ids)
    return {"token_ids": ids, "padding_mask": zeros + 1, "segment_ids": zeros}


@pytest.mark.parametrize("dimensions", [1, 5, 16])
def test_reduced_vectors_are_those_of_scikit_learn(dimensions):
    decomposition = reference("sklearn.decomposition")
    embedder = make()
    whole = vectors(embedder, many())
    reduced = models.reduce_width(embedder, dimensions, whole)
    fitted = decomposition.PCA(svd_solver="full").fit(whole)
    components = fitted.components_[:dimensions]
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(dimensions), largest])
    expected = units(whole @ (signs[:, None] * components).T)
    np.testing.assert_allclose(vectors(reduced, many()), expected, atol=1e-4)
    assert reduced.output_shape[-1] == dimensions
    assert models.pooling_of(reduced) == Pooling(
        dense=(DenseSettings(dimensions, use_bias=False),)
    )


def test_earlier_dense_layers_stay_and_no_layer_is_changed():
    before = make(pooling=Pooling("cls", False, DENSE[:1]))
    whole = vectors(before, many())
    reduced = models.reduce_width(before, 2, whole)
    _, added = dense_layers(reduced)
    found = vectors(reduced, many())
    np.testing.assert_allclose(
        found, whole @ np.asarray(added.kernel), atol=1e-5
    )
    np.testing.assert_array_equal(vectors(before, many()), whole)
    assert len(dense_layers(models.reduce_width(reduced, 1, found))) == 3


def objective(loss):
    return kdkit.Objective(loss, tap="sentence_embedding")


def test_embedders_of_two_widths_are_distilled():
    x, weights = many(5), np.array([1.0, 0.0, 2.0, 1.0, 0.0])
    wide, student = make(), make(seed=1, hidden_dim=8)
    teacher = models.reduce_width(wide, 8, vectors(wide, many()))
    compared = [
        losses.HiddenStateMSE(),
        losses.HiddenStateCosine(),
        losses.SimilarityKLDivergence(),
        losses.InBatchContrastive(),
        losses.Matryoshka("similarity_kl_divergence", (8, 4)),
    ]
    distiller = kdkit.Distiller(teacher, student, map(objective, compared))
    distiller.compile("sgd")
    before = vectors(student, x)
    expected = {
        loss.name: float(loss(vectors(teacher, x), before, weights))
        for loss in compared
    }
    logs = distiller.train_on_batch(x, None, weights, return_dict=True)
    for name, value in expected.items():
        assert logs[name] == pytest.approx(value, rel=1e-4), name
    after = vectors(student, x)
    assert not np.isnan(after).any()
    assert np.abs(after - before).max() > 0
    with pytest.raises(ValueError, match="16"):
        kdkit.Distiller(wide, student, [objective(compared[1])])


QUERIES, CANDIDATES = 4, 3
ROWS = QUERIES * (1 + CANDIDATES)


def of_queries(names):
    """Queries, each before its candidates, of different lengths."""
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 19, size=(ROWS, 6))
    real = np.arange(6) < generator.integers(2, 7, (ROWS, 1))
    inputs = {
        "token_ids": np.where(real, ids, 0).astype("int32"),
        "padding_mask": real.astype("int32"),
        "segment_ids": np.zeros((ROWS, 6), "int32"),
    }
    return {name: inputs[name] for name in names}


def static():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
    tokenizer = models.word_piece_tokenizer(words, lowercase=True)
    return models.make_static_embedder(tokenizer, dimensions=4)


@pytest.mark.parametrize(
    ("embed", "scale", "factor"),
    [
        (make, None, 20.0),
        (lambda: make(pooling=Pooling("cls", normalize=False)), None, 1.0),
        (lambda: make(pooling=Pooling("max")), 3.0, 3.0),
        (lambda: make("distil_bert", Pooling(dense=DENSE[:1])), None, 20.0),
        (static, None, 20.0),
    ],
)
def test_scores_are_products_of_the_embedders_vectors(embed, scale, factor):
    embedder = embed()
    ranker = models.make_ranker(embedder, CANDIDATES, scale)
    x = of_queries(embedder.input)
    rows = np.asarray(embedder(x)).reshape(QUERIES, 1 + CANDIDATES, -1)
    expected = factor * np.einsum("qd,qcd->qc", rows[:, 0], rows[:, 1:])
    np.testing.assert_allclose(ranker(x), expected, atol=1e-4)
    assert not models.is_embedder(ranker)
    assert describe(ranker).num_classes == CANDIDATES
    if embed is not static:
        found = tapped(ranker, ["logits"])(x)["logits"]
        np.testing.assert_array_equal(found, ranker(x))


@pytest.mark.parametrize("side", ["query", "candidates"])
def test_the_gradient_reaches_both_towers(side):
    """A token that only one side has gets a gradient."""
    ranker = models.make_ranker(make(), CANDIDATES)
    x = of_queries(ranker.input)
    is_query = np.arange(ROWS) % (1 + CANDIDATES) == 0
    x["token_ids"][is_query if side == "query" else ~is_query, 1] = 19
    with tf.GradientTape() as tape:
        scores = ranker(x)
        loss = tf.reduce_sum(scores[:, 0] - scores[:, 1])
    table = models.backbone_of(ranker).token_embedding.embeddings
    gradient = tf.convert_to_tensor(tape.gradient(loss, table.value))
    assert np.abs(gradient[19]).max() > 1e-6


def test_a_score_is_the_logit_or_the_log_odds():
    logits = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(reranker_scores(logits[:, :1]), logits[:, 0])
    odds = np.exp(logits[:, 1]) / np.exp(logits[:, 0])
    np.testing.assert_allclose(reranker_scores(logits), np.log(odds))


@pytest.mark.parametrize("num_labels", [1, 2])
def test_scores_of_a_cross_encoder_are_those_of_transformers(
    num_labels, tmp_path
):
    model = foreign_model(
        "bert", "ForSequenceClassification", num_labels=num_labels
    )
    save_foreign(model, "bert", tmp_path)
    loaded = models.load_reranker(tmp_path).model
    inputs, received, _ = batch(model, "bert")
    found = reranker_scores(np.asarray(loaded(inputs_of(loaded, inputs))))
    logits = outputs(model, received).logits
    expected = logits[:, -1] - (logits[:, 0] if num_labels == 2 else 0)
    assert largest(found, expected) < 1e-5
