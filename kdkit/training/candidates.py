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
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.models.embedders import reranker_scores
from kdkit.taps import TEACHER_OUTPUTS
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import candidate_metrics
from kdkit.training.source import Source, bucket_orders, measured, reader
from kdkit.training.tasks import LOGITS
from kdkit.training.texts import encode_pairs, read_known

_log = logging.getLogger(__name__)


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


def different_texts(candidates: Candidates) -> list[str]:
    """Returns every different text once, in the order of the queries."""
    texts = itertools.chain.from_iterable(candidates.rows())
    return [*dict.fromkeys(texts)]


def encode_candidates(
    candidates: Candidates,
    texts: EncodedExamples,
    teacher_tokenizer,
    pair_length: int,
) -> EncodedCandidates:
    """Encodes queries with candidates, for the student and for the teacher.

    Args:
        candidates: `Candidates`.
        texts: `EncodedExamples` of all different texts, in their order.
        teacher_tokenizer: the tokenizer of the cross-encoder.
        pair_length: int. The largest number of tokens in its pairs.
    """
    number = {
        text: place for place, text in enumerate(different_texts(candidates))
    }
    rows = [*candidates.rows()]
    numbers = np.array([number[text] for row in rows for text in row])
    count = candidates.num_candidates
    pairs = [(query, one) for query, *documents in rows for one in documents]
    pairs = Examples(tuple(map(list, zip(*pairs, strict=True))))
    return EncodedCandidates(
        token_ids=texts.token_ids,
        segment_ids=texts.segment_ids,
        lengths=np.asarray(texts.lengths)[numbers],
        labels=np.zeros(len(candidates), "int32"),
        sequence_length=texts.sequence_length,
        num_truncated=texts.num_truncated,
        pad_token_id=texts.pad_token_id,
        sequences_per_row=1 + count,
        numbers=numbers,
        texts=texts,
        pairs=encode(pairs, teacher_tokenizer, pair_length),
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
        evaluate_teacher=measure,
        metric="mrr@10",
        larger_is_better=True,
        # Of the relevant candidate among all of a query.
        label_loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        teacher_outputs=query_scores,
        counts=counts,
    )


def candidates_source(
    settings: config.Candidates,
    task: Task | None,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> Source:
    """Reads and encodes the queries of a run, and its scored pairs."""
    rows, length = settings.read(), settings.sequence_length
    _, pairs = encode_pairs(task, settings, tokenizer, conventions)
    texts, compared = read_known(task, settings)
    dev, known_queries, every = None, (), settings.held_out_every
    if settings.held_out:
        dev, every = settings.read(held_out=True), 0
        if rows.num_candidates != dev.num_candidates:
            raise UsageError(
                f"Queries to train on have {rows.num_candidates} candidates, "
                f"those to measure on {dev.num_candidates}. Set "
                "data.num_candidates."
            )
        known_queries = dev.queries
        compared += ("the queries to measure on",)
    choice = choose(rows.rows(), texts, every, known_queries)
    chosen, held_out = (choice.part(one)[0] for one in (False, True))
    counts = choice.counts
    if not (len(chosen) and (settings.held_out or len(held_out))):
        raise UsageError(
            f"No query is left to train or to measure on. Of {len(rows)} rows "
            f"{counts['repeated']} are repeated and {counts['dropped']} in "
            "the data for evaluation."
        )

    def encoded(part, name):
        texts, folder = different_texts(part), pathlib.Path(directory, name)
        stored, _ = store_texts(lambda: (texts, {}), tokenizer, length, folder)
        return encode_candidates(
            part, stored, teacher_tokenizer, settings.pair_length
        )

    train = encoded(rows.take(chosen), "train")
    dev = encoded(rows.take(held_out) if dev is None else dev, "held_out")
    _log.info(
        f"{len(train)} queries with {train.num_candidates} candidates each to "
        f"train on, {len(dev)} to measure on; {train.num_truncated} texts "
        f"truncated to {length} tokens, {train.pairs.num_truncated} pairs to "
        f"{settings.pair_length}; {counts['repeated']} repeated rows left out."
    )
    if counts["dropped"]:
        _log.warning(
            f"{counts['dropped']} rows are left out because "
            f"{' or '.join(compared)} contain one of their texts."
        )
    return queries_source(
        train,
        dev,
        settings.num_buckets,
        "dev" if settings.held_out else "held_out",
        pairs,
        {**counts, "compared_with": compared},
    )
