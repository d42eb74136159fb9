"""Queries with candidates as a data source, scored by a cross-encoder."""

import dataclasses
import functools
import logging
import pathlib

import keras
import numpy as np

from kdkit.data import Buckets, Candidates, EncodedExamples, Examples, encode
from kdkit.data.selection import choose, text_hashes
from kdkit.data.stored_texts import store_texts
from kdkit.errors import UsageError
from kdkit.late import tf
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

    @property
    def signature(self) -> dict:
        """The specs of the result of `__call__`, for `tf.data`."""
        shape = (None, self._num_candidates)
        return {
            TEACHER_OUTPUTS: ({LOGITS.name: tf.TensorSpec(shape, "float32")},)
        }

    def row_bytes(self, padded_length: int) -> int:
        """Returns the bytes of one query's scores."""
        del padded_length
        return 4 * self._num_candidates

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
        known = text_hashes(text for one in examples.texts for text in one)
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
        known_queries = text_hashes(dev.queries)
        compared += ("the queries to measure on",)
    every = 0 if settings.held_out else settings.held_out_every
    choice = choose(
        (
            (query, *documents)
            for query, documents in zip(
                rows.queries, rows.documents, strict=True
            )
        ),
        known,
        every,
        known_queries,
    )
    counts = choice.counts
    chosen, held_out = (choice.part(one)[0] for one in (False, True))
    if not (len(chosen) and (settings.held_out or len(held_out))):
        raise UsageError(
            f"No query is left to train or to measure on. Of {len(rows)} rows "
            f"{counts['repeated']} are repeated and "
            f"{counts['left_out']} in the data for evaluation."
        )
    if dev is None:
        dev = rows.take(held_out)
    train = rows.take(chosen)

    def stored(part, name):
        texts = different_texts(part)
        folder = pathlib.Path(directory, name)
        return store_texts(lambda: (texts, {}), tokenizer, length, folder)[0]

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
        f"{settings.pair_length}; {counts['repeated']} repeated rows "
        "left out."
    )
    if counts["left_out"]:
        _log.warning(
            f"{counts['left_out']} rows are left out because "
            f"{' or '.join(compared)} contain one of their texts."
        )
    source = CandidatesSource(
        train, held_out, settings.num_buckets, split, pairs
    )
    return source, {
        "rows": len(rows),
        "dropped": counts["left_out"],
        "compared_with": compared,
        "empty": counts["empty"],
        "repeated": counts["repeated"],
    }
