"""kdkit.tasks.embedding_metrics against scipy and the definitions."""

import itertools

import numpy as np
import pytest
import scipy.spatial
import scipy.stats

from kdkit import tasks
from kdkit.tasks import embedding_metrics

RANDOM = np.random.default_rng(0)


def vectors(num_rows, dimensions=8):
    return RANDOM.normal(size=(num_rows, dimensions)).astype("float32")


def test_pairs_are_compared_by_the_correlations_of_their_cosines():
    first, second = vectors(40), vectors(40)
    scores = RANDOM.integers(0, 6, 40)
    similarities = [
        1 - scipy.spatial.distance.cosine(*pair)
        for pair in zip(first, second, strict=True)
    ]
    metrics = tasks.pair_metrics(first, 3 * second, scores)
    assert list(metrics) == ["spearman", "pearson"]
    for name, function in (
        ("spearman", scipy.stats.spearmanr),
        ("pearson", scipy.stats.pearsonr),
    ):
        expected = function(similarities, scores).statistic
        assert metrics[name] == pytest.approx(expected, abs=1e-6)


def test_the_same_vector_for_every_text_has_no_correlation():
    same = np.ones((5, 3))
    metrics = tasks.pair_metrics(same, same, range(5))
    assert metrics == {"spearman": 0.0, "pearson": 0.0}
    assert tasks.cosines(0 * same, same).tolist() == [0] * 5


def test_candidates_are_ranked_by_their_scores():
    scores = RANDOM.normal(size=(50, 12))
    ranks = scipy.stats.rankdata(-scores, axis=1)[:, 0]
    metrics = embedding_metrics.candidate_metrics(scores)
    expected = np.where(ranks <= 10, 1 / ranks, 0).mean()
    assert metrics["mrr@10"] == pytest.approx(expected)
    assert metrics["accuracy"] == pytest.approx((ranks == 1).mean())


def gain(relevances):
    """The discounted cumulative gain of relevances in their order."""
    return sum(
        one / np.log2(rank + 1) for rank, one in enumerate(relevances, 1)
    )


def test_rankings_are_measured_by_their_definitions(monkeypatch):
    monkeypatch.setattr(embedding_metrics, "BLOCK", 150)  # several blocks
    queries, documents = vectors(7), vectors(120)
    judgements = {
        row: {
            int(one): int(RANDOM.integers(0, 4))
            for one in RANDOM.choice(120, 30, replace=False)
        }
        for row in range(6)
    }
    judgements[2] = {5: 0}  # without a relevant document, as query 6
    expected = []
    for row in (0, 1, 3, 4, 5):
        distances = scipy.spatial.distance.cdist(
            queries[row : row + 1], documents, "cosine"
        )[0]
        order = np.argsort(distances)
        judged = judgements[row]
        ranked = [judged.get(int(one), 0) for one in order]
        ranks = [rank for rank, one in enumerate(ranked[:10], 1) if one]
        hits = np.array(ranked) > 0
        expected.append(
            {
                "ndcg@10": gain(ranked[:10]) / gain(sorted(ranked)[:-11:-1]),
                "mrr@10": 1 / ranks[0] if ranks else 0,
                **{
                    f"recall@{depth}": hits[:depth].sum() / hits.sum()
                    for depth in (1, 10, 100)
                },
            }
        )
    metrics = tasks.retrieval_metrics(queries, documents, judgements)
    assert list(metrics) == list(expected[0])
    for name, value in metrics.items():
        mean = np.mean([one[name] for one in expected])
        assert value == pytest.approx(mean, abs=1e-6), name


@pytest.mark.parametrize(
    ("similarity", "nearest"),
    [("cosine", 0), ("dot", 1), ("euclidean", 2), ("manhattan", 3)],
)
def test_an_embedders_own_similarity_decides(similarity, nearest):
    query = [[1.0, 1.0]]
    others = [[2.5, 2.5], [9.0, 1.0], [1.9, 1.6], [1.0, 2.4]]
    scores = {
        "cosine": [1.0, 0.7809, 0.9963, 0.9247],
        "dot": [5.0, 10.0, 3.5, 3.4],
        "euclidean": [-2.1213, -8.0, -1.0817, -1.4],
        "manhattan": [-3.0, -8.0, -1.5, -1.4],
    }[similarity]
    numbers, values = tasks.nearest(query, others, 4, similarity)
    assert numbers[0, 0] == nearest
    np.testing.assert_allclose(values[0], np.take(scores, numbers[0]), 1e-3)
    judged = {0: {nearest: 1}}
    metrics = tasks.retrieval_metrics(
        query, others, judged, similarity=similarity
    )
    assert metrics["recall@1"] == 1
    metrics = tasks.pair_metrics(query * 4, others, scores, similarity)
    assert metrics["pearson"] == pytest.approx(1)


@pytest.mark.parametrize("judged", [{0: 3, 1: 1, 4: 2}, {3: 1}, {2: 1, 5: 2}])
def test_metrics_are_means_over_all_orders_of_equal_documents(
    judged, monkeypatch
):
    monkeypatch.setattr(embedding_metrics, "DEPTH", 3)
    monkeypatch.setattr(embedding_metrics, "DEPTHS", (1, 2))
    documents = np.array([[1, 2], [2, 1], [2, 4], [1, 0], [4, 2], [1, 2]])
    metrics = tasks.retrieval_metrics([[1, 0]], documents, {0: judged})
    similarities = scipy.spatial.distance.cdist([[1, 0]], documents, "cosine")[
        0
    ].round(6)
    expected = []
    for order in itertools.permutations(range(6)):
        if (np.diff(similarities[list(order)]) < 0).any():
            continue
        ranked = [judged.get(one, 0) for one in order]
        rank = next(rank for rank, one in enumerate(ranked, 1) if one)
        hits = np.array(ranked) > 0
        ideal = gain(sorted(ranked)[:-4:-1])
        expected.append(
            {
                "ndcg@3": gain(ranked[:3]) / ideal,
                "mrr@3": 1 / rank if rank <= 3 else 0,
                "recall@1": hits[:1].sum() / hits.sum(),
                "recall@2": hits[:2].sum() / hits.sum(),
            }
        )
    assert len(expected) == 2 * 6  # two and three equal documents
    for name, value in metrics.items():
        assert value == pytest.approx(
            np.mean([one[name] for one in expected])
        ), name


def test_a_document_that_is_ignored_is_neither_ranked_nor_relevant():
    documents = np.array([[1, 0], [1, 0.1], [0, 1]])
    judgements = {0: {0: 1, 1: 1}}
    metrics = tasks.retrieval_metrics([[1, 0]], documents, judgements, {0: 0})
    assert set(metrics.values()) == {1}
    metrics = tasks.retrieval_metrics([[1, 0]], documents, {0: {1: 1}})
    assert metrics["mrr@10"] == 1 / 2


def test_an_embedder_collapses_if_its_vectors_are_nearly_the_same():
    different = vectors(50)
    assert embedding_metrics.collapse(different) is None
    assert embedding_metrics.collapse(different[:1]) is None
    for same in (np.ones((5, 3)), np.zeros((5, 3)), 9 + 1e-4 * different):
        reason = embedding_metrics.collapse(same)
        assert reason.startswith("gives every text nearly the same vector")


def test_of_equal_documents_the_first_one_comes_first():
    documents = np.eye(3)[[2, 0, 1] * 100]
    numbers, _ = tasks.nearest(documents[:1], documents, 4)
    assert numbers.tolist() == [[0, 3, 6, 9]]
    numbers, _ = tasks.nearest(np.ones((2, 4)), np.ones((1000, 4)), 3)
    assert numbers.tolist() == [[0, 1, 2]] * 2


def test_bitext_is_the_share_of_translations_that_are_nearest():
    sources = np.eye(4)
    targets = sources[[0, 1, 3, 2]] + 0.1
    metrics = tasks.bitext_metrics(sources, targets)
    assert set(metrics.values()) == {0.5}
    targets = np.array([[1, 0.1], [1, 0.3], [0, 1]])  # a hub: the second
    metrics = tasks.bitext_metrics([[1, 0.25], [1, 0.26], [0, 1]], targets)
    assert metrics["source_to_target_accuracy"] == pytest.approx(2 / 3)
    assert metrics["target_to_source_accuracy"] == 1
    assert metrics["accuracy"] == pytest.approx(5 / 6)


def test_texts_with_the_same_vector_share_a_hit(monkeypatch):
    monkeypatch.setattr(embedding_metrics, "BLOCK", 11)
    same = np.tile(vectors(1), (10, 1))
    metrics = tasks.bitext_metrics(same, same)
    assert list(metrics.values()) == pytest.approx([0.1] * 3)
    twice = np.eye(3)[[0, 1, 2, 2]]
    metrics = tasks.bitext_metrics(twice, twice)
    assert metrics["accuracy"] == pytest.approx((1 + 1 + 0.5 + 0.5) / 4)
