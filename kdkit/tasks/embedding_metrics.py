"""Metrics of sentence embeddings: pairs with scores, retrieval, bitext.

All compare vectors by their cosine, pairs and retrieval also by an embedder's
own similarity. The functions take vectors of any model and need neither Keras
nor a task.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from kdkit.errors import UsageError
from kdkit.late import sklearn_metrics
from kdkit.models.conventions import COSINE, DOT, MANHATTAN
from kdkit.tasks.metrics import (
    pearson,
    require_finite,
    require_same_shape,
    spearman,
)

DEPTHS = (1, 10, 100)  # the numbers of documents of recall
DEPTH = 10  # the number of documents of nDCG and MRR
BLOCK = 1 << 24  # cosines in memory at a time, 64 MiB
SAME = 1e-6  # a smaller difference between float32 cosines is rounding
COLLAPSED = 0.9999  # the cosine from which on vectors are nearly the same


def collapse(vectors) -> str | None:
    """Returns why an embedder has collapsed, `None` if it has not."""
    vectors = _directions(vectors)
    distance = np.linalg.norm(vectors - vectors[0], axis=1).max()
    cosine = 1 - distance**2 / 2  # 1 for vectors of zeros, too
    if len(vectors) == 1 or cosine < COLLAPSED:
        return None
    return (
        "gives every text nearly the same vector (smallest cosine "
        f"{cosine:.5f})"
    )


def cosines(first, second) -> np.ndarray:
    """Returns the cosine of each vector with the vector in the same row.

    Args:
        first: float array of shape `(num_pairs, dimensions)`.
        second: float array of the same shape.

    Returns:
        `float64` array of shape `(num_pairs,)`; 0 for vectors of zeros.

    Raises:
        UsageError: (a `ValueError`) if the shapes differ.
        RunError: if a number is not finite.

    >>> cosines([[1.0, 0.0], [3.0, 4.0]], [[0.0, 2.0], [6.0, 8.0]]).tolist()
    [0.0, 1.0]
    """
    return _similarities_of_pairs(first, second, COSINE)


def _similarities_of_pairs(first, second, similarity):
    first, second = (
        _directions(one, similarity, "float64")
        for one in require_same_shape(first, second)
    )
    if similarity in (COSINE, DOT):
        return np.einsum("pd,pd->p", first, second)
    order = 1 if similarity == MANHATTAN else 2
    return -np.linalg.norm(first - second, order, axis=1)


def pair_metrics(
    first, second, scores, similarity: str = COSINE
) -> dict[str, float]:
    """Compares the cosines of pairs of texts with the scores of people.

    Args:
        first: float array of shape `(num_pairs, dimensions)`. The vectors of
            the first texts.
        second: float array of the same shape. Those of the second texts.
        scores: float array of shape `(num_pairs,)`, larger for more similar
            texts, such as 0 to 5 in STS-B.
        similarity: string. What to compare instead of cosines, as in
            `kdkit.models.Conventions`. Defaults to `"cosine"`.

    Returns:
        Dict with `"spearman"`, the rank correlation between cosines and scores,
        and `"pearson"`, their correlation. Both are from -1 to 1, and 0 if all
        cosines or all scores are equal.

    Raises:
        UsageError: (a `ValueError`) if the vectors' shapes differ.
        RunError: if a number is not finite.

    >>> first = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    >>> second = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> metrics = pair_metrics(first, second, [5.0, 4.0, 1.0])
    >>> {name: round(value, 3) for name, value in metrics.items()}
    {'spearman': 1.0, 'pearson': 0.999}
    """
    similarities = _similarities_of_pairs(first, second, similarity)
    if len(scores) != len(similarities):
        raise UsageError(f"{len(scores)} scores of {len(similarities)} pairs.")
    return {
        "spearman": spearman(scores, similarities),
        "pearson": pearson(scores, similarities),
    }


def bitext_metrics(sources, targets) -> dict[str, float]:
    """Measures how often a text's nearest neighbour is its translation.

    Args:
        sources: float array of shape `(num_pairs, dimensions)`. The vectors of
            texts in one language.
        targets: float array of the same shape. Those of their translations, in
            the same order.

    Returns:
        Dict with `"accuracy"`, the mean of the next two;
        `"source_to_target_accuracy"`, the share of sources whose translation
        has the largest cosine of all targets; and
        `"target_to_source_accuracy"`, the same for targets. If several texts
        have the largest cosine, such as a text that occurs twice, each counts
        as an equal part of a hit, so that a model with the same vector for
        every text is at chance.

    Raises:
        UsageError: (a `ValueError`) if the shapes differ.
        RunError: if a number is not finite.

    >>> bitext_metrics([[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 0.5]])
    {'accuracy': 0.5, 'source_to_target_accuracy': 0.5, ...
    """
    sources, targets = require_same_shape(sources, targets)
    forward, back = _hits(sources, targets), _hits(targets, sources)
    return {
        "accuracy": (forward + back) / 2,
        "source_to_target_accuracy": forward,
        "target_to_source_accuracy": back,
    }


def _hits(texts, others):
    """The share of texts whose own translation is the nearest text."""
    hits = 0.0
    for start, similarities in _similarities(texts, others):
        rows = np.arange(len(similarities))
        own = similarities[rows, start + rows][:, np.newaxis]
        is_beaten = (similarities > own + SAME).any(axis=1)
        num_same = (similarities >= own - SAME).sum(axis=1)
        hits += float((~is_beaten / num_same).sum())
    return hits / len(texts)


def candidate_metrics(scores) -> dict[str, float]:
    """Ranks the candidates of each query, of which the first is relevant."""
    scores = require_finite(np.asarray(scores, "float64"), "scores")
    found = _means([_query_metrics(row, {0: 1.0}) for row in scores])
    mrr = f"mrr@{DEPTH}"
    return {mrr: found[mrr], "accuracy": found["recall@1"]}


def retrieval_metrics(
    queries,
    documents,
    judgements: Mapping[int, Mapping[int, float]],
    ignored: Mapping[int, int] | None = None,
    similarity: str = COSINE,
) -> dict[str, float]:
    """Ranks all documents for each query by cosine, and measures the ranking.

    Only queries with a relevant document count. Documents with the same cosine
    have no order: a metric is its mean over all orders of them, so that a model
    with the same vector for every text is at chance.

    Args:
        queries: float array of shape `(num_queries, dimensions)`.
        documents: float array of shape `(num_documents, dimensions)`.
        judgements: dict from the number of a query, from 0, to a dict from the
            number of a document to its relevance. Documents with a relevance
            above 0 are relevant. Documents without a judgement are not.
        ignored: dict from the number of a query to the number of a document
            that is neither ranked nor relevant for it, such as the query
            itself. Optional. Defaults to `None`, no document.
        similarity: string. What to rank by instead of cosines, as in
            `kdkit.models.Conventions`. Defaults to `"cosine"`.

    Returns:
        Dict with `"ndcg@10"`, the normalised discounted cumulative gain of the
        first 10 documents, with the relevance as gain; `"mrr@10"`, the mean of
        1 / rank of the first relevant document, 0 if it is not among the first
        10; and `"recall@1"`, `"recall@10"` and `"recall@100"`, the mean share
        of the relevant documents that are among the first ones.

    Raises:
        RunError: if a number is not finite.

    References:
     - [Järvelin and Kekäläinen, 2002](https://doi.org/10.1145/582415.582418)
     - [McSherry and Najork, 2008](https://doi.org/10.1007/978-3-540-78646-7_38)

    >>> metrics = retrieval_metrics(
    ...     [[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0], [1.0, 0.1]], {0: {1: 1}}
    ... )
    >>> {name: round(value, 3) for name, value in metrics.items()}
    {'ndcg@10': 0.631, 'mrr@10': 0.5, 'recall@1': 0.0, 'recall@10': 1.0, ...
    """
    ignored = ignored or {}
    relevant = {
        row: {
            one: gain
            for one, gain in judged.items()
            if gain > 0 and one != ignored.get(row)
        }
        for row, judged in judgements.items()
    }
    rows = sorted(row for row, judged in relevant.items() if judged)
    found = []
    queries = np.asarray(queries)[rows]
    for start, block in _similarities(queries, documents, similarity):
        for row, similarities in zip(rows[start:], block, strict=False):
            if row in ignored:
                similarities[ignored[row]] = -np.inf
            found.append(_query_metrics(similarities, relevant[row]))
    return _means(found)


def _means(found):
    """The mean of each metric over queries."""
    return {
        name: float(np.mean([metrics[name] for metrics in found]))
        for name in found[0]
    }


def _query_metrics(similarities, judged):
    """A query's metrics, as means over all orders of equal documents."""
    own, gains = similarities[[*judged]], np.array([*judged.values()])
    same = SAME * max(1, np.abs(own).max())  # dot products may be large
    depth = min(max(DEPTHS), len(similarities))
    last = np.partition(similarities, -depth)[-depth]
    near = np.sort(similarities[similarities >= last - 2 * same])
    # A relevant document's rank, from 0, is one of `first` to `end - 1`.
    first = len(near) - np.searchsorted(near, own + same, side="right")
    end = len(near) - np.searchsorted(near, own - same, side="left")

    def expected(sums):
        """The mean over the ranks of weights with these cumulative sums."""
        below, above = (
            sums[np.minimum(n, len(sums) - 1)] for n in (first, end)
        )
        return (above - below) / np.maximum(end - first, 1)

    sums = np.cumsum([0, *1 / np.log2(np.arange(2, DEPTH + 2))])
    ideal = np.sort(gains)[: -DEPTH - 1 : -1] @ np.diff(sums)[: len(gains)]
    # The first of `count` relevant documents among `num_same` equal ones.
    count = int((own >= own.max() - same).sum())
    best = first.min()
    num_same = end[own.argmax()] - best
    others = np.arange(max(0, min(num_same - count + 1, DEPTH - best)))
    hits = count / (num_same - others)
    hits *= np.cumprod([1, *1 - hits])[:-1]
    return {
        f"ndcg@{DEPTH}": expected(sums) @ gains / ideal,
        f"mrr@{DEPTH}": (hits / (best + 1 + others)).sum(),
        **{
            f"recall@{depth}": expected(np.arange(depth + 1)).mean()
            for depth in DEPTHS
        },
    }


def nearest(
    queries, documents, count: int, similarity: str = COSINE
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the documents with the largest cosines for each query.

    Args:
        queries: float array of shape `(num_queries, dimensions)`.
        documents: float array of shape `(num_documents, dimensions)`.
        count: int. The number of documents for a query.
        similarity: string. What to compare instead of cosines, as in
            `kdkit.models.Conventions`. Defaults to `"cosine"`.

    Returns:
        Tuple of the documents' numbers, an int array of shape `(num_queries,
        min(count, num_documents))`, the nearest first and of equal cosines
        the first document; and their cosines, a `float32` array of the same
        shape.

    Raises:
        RunError: if a number is not finite.

    >>> numbers, _ = nearest([[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]], 2)
    >>> numbers.tolist()
    [[1, 0]]
    """
    count = min(count, len(documents))
    numbers, values = [], []
    for _, similarities in _similarities(queries, documents, similarity):
        for row in similarities:
            last = np.partition(row, -count)[-count]
            found = np.flatnonzero(row >= last)  # with all that equal the last
            order = np.argsort(-row[found], kind="stable")[:count]
            numbers.append(found[order])
            values.append(row[found[order]])
    return np.stack(numbers), np.stack(values)


def _similarities(
    texts, others, similarity=COSINE
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields blocks of similarities, each with its first text's number."""
    texts, others = (_directions(one, similarity) for one in (texts, others))
    size = max(1, BLOCK // len(others))
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        if similarity in (COSINE, DOT):
            yield start, some @ others.T
        else:
            distances = sklearn_metrics.pairwise_distances
            yield start, -distances(some, others, metric=similarity)


def _directions(vectors, similarity=COSINE, dtype="float32"):
    """Vectors, for the cosine divided by their length."""
    vectors = require_finite(np.asarray(vectors, dtype), "embeddings")
    if similarity != COSINE:
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
