"""The settings of queries with candidates, for sentence encoders."""

import dataclasses
import math
from typing import ClassVar

from kdkit.data import Candidates
from kdkit.data import LabeledTable
from kdkit.data import load_candidates
from kdkit.data import read_candidates
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.settings import too_small
from kdkit.training.data_settings import require_dev

LEAST = {
    "sequence_length": 3,
    "pair_length": 4,
    "num_candidates": 2,
    "held_out_every": 2,
}


@dataclasses.dataclass(frozen=True)
class CandidatesSettings:
    """The settings of queries with candidates, which a cross-encoder scores.

    Args:
        files: tuple of strings. Files as `kdkit.data.read_candidates` takes
            them. Empty for the generated sentences of smoke runs. Repeated
            rows, and rows with a text of dev, are left out.
        held_out: tuple of strings. Files of the same form to measure on. Empty
            to hold out queries of `files`.
        held_out_every: int. Without `held_out`, one in so many queries is held
            out, beginning with the first.
        num_candidates: int or `None`. The number of candidates to use of each
            query: the positive and the first negatives. `None` for all.
        scale: float or `None`. The factor of the products of the student's
            vectors, which are its scores. `None` for 20 if the vectors have
            length 1, and 1 for other vectors.
        task: string or `None`. A task with scored pairs, whose dev split is
            measured, too. With `table`, only a name.
        data_dir, table: as in `DataSettings`.
        dev_split: string. The split of `task`.
        sequence_length: int. The largest sequence length of a text in tokens.
            Longer texts are truncated.
        pair_length: int. The largest sequence length of a query with a
            candidate, for the teacher.
        num_buckets: int or `None`. The number of different lengths that batches
            are padded to. XLA compiles each length once. `None` to pad every
            batch to its largest length.

    Raises:
        UsageError: (a `ValueError`) if a number is impossible, or `dev_split`
            is a test split or the training data.
    """

    stage_data: ClassVar[str] = "candidates"  # of the stages that read them

    files: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    held_out_every: int = 20
    num_candidates: int | None = None
    scale: float | None = None
    task: str | None = None
    data_dir: str | None = None
    table: LabeledTable | None = None
    dev_split: str = "dev"
    sequence_length: int = 128
    pair_length: int = 256
    num_buckets: int | None = 8

    def __post_init__(self):
        problems = too_small(
            self, LEAST | ({"num_buckets": 1} if self.num_buckets else {})
        )
        if self.num_buckets == 0:
            problems.append("num_buckets must be null or at least 1")
        if self.scale is not None and not 0 < self.scale < math.inf:
            problems.append(
                "scale must be null, or above 0 and finite, received "
                f"{self.scale}"
            )
        if self.held_out and not self.files:
            problems.append("held_out needs files to train on, received none")
        with all_mistakes() as check:
            with check():
                if problems:
                    raise UsageError(
                        f"Settings of candidates: {'; '.join(problems)}."
                    )
            with check():
                require_dev(self.dev_split)

    def check(self) -> None:
        """Reads the files.

        Raises:
            UsageError: with all mistakes in the files.
        """
        with all_mistakes() as check:
            for files in filter(None, (self.files, self.held_out)):
                with check():
                    read_candidates(files, self.num_candidates)

    def read(self, held_out: bool = False) -> Candidates:
        """Returns the queries of `files`, or those of `held_out`.

        Args:
            held_out: bool. Defaults to `False`.

        Raises:
            UsageError: with all mistakes in the files.
        """
        if self.files:
            files = self.held_out if held_out else self.files
            return read_candidates(files, self.num_candidates)
        rows = load_candidates("dev" if held_out else "train")
        count = self.num_candidates
        documents = [found[:count] for found in rows.documents]
        return Candidates(rows.queries, documents)

    def texts(self, held_out: bool):
        """Yields the texts of `files`, for checks before the run."""
        del held_out
        rows = self.read()
        for query, documents in zip(rows.queries, rows.documents, strict=True):
            yield query
            yield from documents
