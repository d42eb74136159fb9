"""Queries with candidates as a source, scored by a cross-encoder."""

import dataclasses
import functools
import itertools
import logging
import pathlib

import keras
import numpy as np

from kdkit.config import data as config
from kdkit.data import EncodedExamples, Examples, encode
from kdkit.data.retrieval import Candidates
from kdkit.data.selection import choose
from kdkit.data.stored_texts import store_texts
from kdkit.errors import UsageError
from kdkit.models.conventions import Conventions
from kdkit.models.embedders import reranker_scores
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.tasks.embedding_metrics import candidate_metrics
from kdkit.training.source import (
    Source,
    bucket_orders,
    log_texts,
    measured,
    reader,
)
from kdkit.training.tasks import LOGITS
from kdkit.training.texts import ScoredPairs

_log = logging.getLogger(__name__)
CACHED = [(LOGITS,)]  # the entries of a cache, for each pair


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedCandidates(EncodedExamples):
    """Queries with candidates: an example's first sequence is the query."""

    numbers: np.ndarray = dataclasses.field(kw_only=True)
    texts: EncodedExamples = dataclasses.field(kw_only=True)
    pairs: EncodedExamples = dataclasses.field(kw_only=True)

    @functools.cached_property
    def starts(self):
        """The index in `token_ids` of every sequence's first token."""
        return self.texts.starts[self.numbers]

    @property
    def num_candidates(self) -> int:
        """The number of candidates of every query."""
        return self.sequences_per_row - 1

    def scores(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the products of each query's vector with its candidates'."""
        rows = self.numbers.reshape(-1, self.sequences_per_row)
        vectors = np.asarray(vectors, "float64")
        return np.einsum(
            "qd,qcd->qc", vectors[rows[:, 0]], vectors[rows[:, 1:]]
        )


def encode_candidates(
    candidates: Candidates,
    settings: config.Candidates,
    tokenizer,
    teacher_tokenizer,
    folder,
) -> EncodedCandidates:
    """Encodes queries with candidates, for the student and for the teacher."""
    rows, count = [*candidates.rows()], candidates.num_candidates
    different = dict.fromkeys(itertools.chain.from_iterable(rows))
    texts, _ = store_texts(
        lambda: (different, {}), tokenizer, settings.sequence_length, folder
    )
    number = {text: place for place, text in enumerate(different)}
    numbers = np.array([number[text] for row in rows for text in row])
    pairs = [(query, one) for query, *documents in rows for one in documents]
    pairs = Examples(tuple(map(list, zip(*pairs, strict=True))))
    fields = vars(texts) | {
        "lengths": np.asarray(texts.lengths)[numbers],
        "labels": np.zeros(len(rows), "int32"),
        "sequences_per_row": 1 + count,
    }
    return EncodedCandidates(
        **fields,
        numbers=numbers,
        texts=texts,
        pairs=encode(pairs, teacher_tokenizer, settings.pair_length),
    )


def query_scores(outputs, queries: EncodedCandidates):
    """Returns the scores of each query's candidates, from logits of pairs."""
    found, count = outputs(queries.pairs), queries.num_candidates

    def scores(rows, padded_length):
        pairs = np.asarray(rows)[:, np.newaxis] * count + np.arange(count)
        (taps,) = found(pairs.reshape(-1), 0)[TEACHER_OUTPUTS]
        values = reranker_scores(taps[LOGITS.name]).reshape(-1, count)
        return {TEACHER_OUTPUTS: ({LOGITS.name: np.ascontiguousarray(values)},)}

    return scores


def queries_source(
    train: EncodedCandidates,
    held_out: EncodedCandidates,
    num_buckets: int | None,
    split: str = "held_out",
    pairs=None,
    counts: dict | None = None,
) -> Source:
    """Returns queries whose scores are compared with a cross-encoder's."""
    vectors = reader(held_out.texts)

    def measure(scores):
        return measured(split, held_out, candidate_metrics(scores))

    def evaluate_teacher(features):
        rows = np.arange(len(held_out))
        (taps,) = query_scores(features, held_out)(rows, 0)[TEACHER_OUTPUTS]
        return measure(taps[LOGITS.name])

    def evaluate(predict):
        found = measure(held_out.scores(vectors(predict)))
        if pairs is not None:
            found["metrics"] |= pairs(predict)["metrics"]
        return found

    return Source(
        train,
        held_out,
        **bucket_orders(num_buckets),
        evaluate=evaluate,
        evaluate_teacher=evaluate_teacher,
        metric="mrr@10",
        larger_is_better=True,
        # Of the relevant candidate among all of a query.
        label_loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        teacher_outputs=query_scores,
        counts=counts,
    )


def candidates_source(
    settings: config.Candidates,
    pairs: ScoredPairs,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions,
) -> Source:
    """Reads and encodes the queries of a run, and its scored pairs."""
    rows, known_queries, compared = settings.read(), (), pairs.names
    if settings.held_out:
        dev = settings.read(held_out=True)
        if rows.num_candidates != dev.num_candidates:
            raise UsageError(
                f"Queries to train on have {rows.num_candidates} candidates, "
                f"those to measure on {dev.num_candidates}. Set "
                "data.num_candidates."
            )
        known_queries = dev.queries
        compared += ("the queries to measure on",)
    every = 0 if settings.held_out else settings.held_out_every
    choice = choose(rows.rows(), pairs.texts, every, known_queries)
    chosen, held_out = (choice.part(one)[0] for one in (False, True))
    train = rows.take(chosen)
    if not settings.held_out:
        dev = rows.take(held_out)
    counts = {**choice.counts, "compared_with": compared}
    if not (len(train) and len(dev)):
        raise UsageError(
            f"No query is left to train or to measure on. Of {len(rows)} rows "
            f"{counts['repeated']} are repeated and {counts['dropped']} in "
            "the data for evaluation."
        )

    def encoded(name, part):
        tokenizers = tokenizer, teacher_tokenizer
        folder = pathlib.Path(directory, name)
        return encode_candidates(part, settings, *tokenizers, folder)

    train, dev = encoded("train", train), encoded("held_out", dev)
    log_texts("queries with candidates", train, dev, counts)
    _log.info(
        f"{train.pairs.num_truncated} pairs truncated to "
        f"{settings.pair_length} tokens."
    )
    length = settings.sequence_length
    _, measure = pairs.encode(tokenizer, length, conventions)
    return queries_source(
        train,
        dev,
        settings.num_buckets,
        "dev" if settings.held_out else "held_out",
        measure,
        counts,
    )
