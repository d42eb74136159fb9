"""Queries with candidates as a data source, scored by a cross-encoder."""

import dataclasses
import functools
import logging
import pathlib

import keras
import numpy as np

from kdkit.data import Buckets, Candidates, EncodedExamples, Examples, encode
from kdkit.data.stored_texts import TextChoice, store_texts, text_hash
from kdkit.errors import UsageError
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.models.embedders import reranker_scores
from kdkit.taps import TEACHER_OUTPUTS, Entry
from kdkit.tasks import Task
from kdkit.tasks.embedding_metrics import candidate_metrics
from kdkit.training.caching import TeacherCaches
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.embedding_data import ScoredPairs, encode_pairs
from kdkit.training.sources import DataSource
from kdkit.training.task_data import BATCH_SIZE, NUM_BUCKETS, Evaluator

_log = logging.getLogger(__name__)
LOGITS = Entry("logits")


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
    rows = zip(candidates.queries, candidates.documents, strict=True)
    return list(
        dict.fromkeys(one for query, row in rows for one in (query, *row))
    )


def encode_candidates(
    candidates: Candidates,
    texts: EncodedExamples,
    teacher_tokenizer,
    pair_length: int,
) -> EncodedCandidates:
    """Encodes queries with candidates, for the student and for the teacher."""
    different = different_texts(candidates)
    number = {text: place for place, text in enumerate(different)}
    numbers = np.array(
        [
            number[text]
            for query, row in zip(
                candidates.queries, candidates.documents, strict=True
            )
            for text in (query, *row)
        ]
    )
    count = candidates.num_candidates
    pairs = encode(
        Examples(
            (
                [one for one in candidates.queries for _ in range(count)],
                [one for row in candidates.documents for one in row],
            )
        ),
        teacher_tokenizer,
        pair_length,
    )
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
        pairs=pairs,
    )


class ScoreCaches(TeacherCaches):
    """The cache of a cross-encoder's logits, one entry for each pair."""

    def features(self, stage, student):
        """Returns a function for adding the teacher's scores to batches."""
        of_pairs = super().features(stage, student)
        return lambda encoded: Scores(
            of_pairs(encoded.pairs), encoded.num_candidates
        )

    def _entries(self, stage, student):
        # The teacher has the logits of one pair, the student those of all
        # candidates, so the student's sizes do not fit.
        del stage, student
        return [(LOGITS,)]


class Scores:
    """The cross-encoder's scores of a batch, as the output of a teacher."""

    def __init__(self, pairs, num_candidates: int):
        self._pairs = pairs
        self._num_candidates = num_candidates

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the scores of some queries as the output of one teacher."""
        del padded_length
        return {TEACHER_OUTPUTS: ({LOGITS.name: self.array(rows)},)}

    def array(self, rows: np.ndarray) -> np.ndarray:
        """Returns the scores of some queries."""
        count = self._num_candidates
        pairs = np.asarray(rows)[:, np.newaxis] * count + np.arange(count)
        (found,) = self._pairs(pairs.reshape(-1), 0)[TEACHER_OUTPUTS]
        scores = reranker_scores(found[LOGITS.name])
        return np.ascontiguousarray(scores.reshape(-1, count))


@dataclasses.dataclass(frozen=True)
class CandidatesSource(DataSource):
    """Queries with candidates, whose scores are compared with a teacher's."""

    train: EncodedCandidates
    held_out: EncodedCandidates
    num_buckets: int | None
    split: str = "held_out"
    pairs: ScoredPairs | None = None
    primary_metric = "mrr@10"
    larger_is_better = True
    measures_start = True

    @property
    def label_loss(self):
        """The cross-entropy of the relevant candidate among all of a query."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @property
    def pad_token_id(self):
        return self.train.pad_token_id

    def batching(self, stage):
        return Buckets(stage.batch_size, self.num_buckets)

    @property
    def held_out_batching(self):
        return Buckets(BATCH_SIZE, self.num_buckets and NUM_BUCKETS)

    @functools.cached_property
    def _reader(self):
        return Evaluator(None, self.held_out.texts, self.split)

    def evaluate(self, predict, logs):
        """Returns the fields of an `"evaluation"` event."""
        del logs
        found = self.about(self.held_out.scores(self._reader.logits(predict)))
        if self.pairs is not None:
            found["metrics"] |= self.pairs(predict)["metrics"]
        return found

    def about(self, scores: np.ndarray) -> dict:
        """Returns the fields of an event about scores of `held_out`."""
        return {
            "split": self.split,
            "examples": len(self.held_out),
            "metrics": candidate_metrics(scores),
            "agreement": None,
        }


@dataclasses.dataclass(frozen=True)
class ChosenRows:
    """The numbers of the rows to train on and of those to measure on."""

    train: list[int]
    held_out: list[int]
    counts: dict[str, int]


def choose_rows(
    candidates: Candidates, known: set[int], known_queries: set[int], every: int
) -> ChosenRows:
    """Chooses the rows to train on, without repeated and known ones."""
    train, held_out, number_of = [], [], {}
    seen, repeated, dropped = set(), 0, 0
    for row, (query, documents) in enumerate(
        zip(candidates.queries, candidates.documents, strict=True)
    ):
        hashes = tuple(map(text_hash, (query, *documents)))
        if hashes in seen:
            repeated += 1
            continue
        seen.add(hashes)
        if hashes[0] in known_queries or not known.isdisjoint(hashes):
            dropped += 1
            continue
        number = number_of.setdefault(hashes[0], len(number_of))
        is_held_out = bool(every) and number % every == 0
        (held_out if is_held_out else train).append(row)
    counts = {
        "rows": len(candidates),
        "dropped": dropped,
        "repeated": repeated,
    }
    return ChosenRows(train, held_out, counts)


def load_rows(
    settings: CandidatesSettings,
    task: Task | None,
    tokenizer,
    teacher_tokenizer,
    directory,
    conventions: Conventions = PLAIN,
) -> tuple[CandidatesSource, dict]:
    """Reads and encodes the queries of a run, and its scored pairs."""
    rows, length = settings.read(), settings.sequence_length
    pairs, known, compared = None, set(), ()
    if task is not None:
        pairs = encode_pairs(task, settings, tokenizer, conventions)
        examples = task.load(settings.dev_split, settings.data_dir)
        known = {text_hash(text) for one in examples.texts for text in one}
        compared = (f"{task.name} {settings.dev_split}",)
    dev, known_queries = None, set()
    if settings.held_out:
        dev = settings.read(held_out=True)
        if rows.num_candidates != dev.num_candidates:
            raise UsageError(
                f"Queries to train on have {rows.num_candidates} candidates, "
                f"those to measure on {dev.num_candidates}. Set "
                "data.num_candidates."
            )
        known_queries = set(map(text_hash, dev.queries))
        compared += ("the queries to measure on",)
    every = 0 if settings.held_out else settings.held_out_every
    chosen = choose_rows(rows, known, known_queries, every)
    if not (chosen.train and (settings.held_out or chosen.held_out)):
        raise UsageError(
            f"No query is left to train or to measure on. Of {len(rows)} rows "
            f"{chosen.counts['repeated']} are repeated and "
            f"{chosen.counts['dropped']} in the data for evaluation."
        )
    if dev is None:
        dev = rows.take(chosen.held_out)
    train = rows.take(chosen.train)

    def stored(part, name):
        texts = different_texts(part)
        counts = {"texts": len(texts), "empty": 0, "repeated": 0, "left_out": 0}
        return store_texts(
            lambda: texts,
            lambda: TextChoice(np.ones(len(texts), "bool"), counts),
            tokenizer,
            length,
            pathlib.Path(directory, name),
        )

    train, held_out = (
        encode_candidates(
            part, stored(part, name), teacher_tokenizer, settings.pair_length
        )
        for part, name in ((train, "train"), (dev, "held_out"))
    )
    split = "dev" if settings.held_out else "held_out"
    _log.info(
        f"{len(train)} queries with {train.num_candidates} candidates each to "
        f"train on, {len(held_out)} to measure on; {train.num_truncated} texts "
        f"truncated to {length} tokens, {train.pairs.num_truncated} pairs to "
        f"{settings.pair_length}; {chosen.counts['repeated']} repeated rows "
        "left out."
    )
    if chosen.counts["dropped"]:
        _log.warning(
            f"{chosen.counts['dropped']} rows are left out because "
            f"{' or '.join(compared)} contain one of their texts."
        )
    source = CandidatesSource(
        train, held_out, settings.num_buckets, split, pairs
    )
    return source, {**chosen.counts, "compared_with": compared, "empty": 0}
