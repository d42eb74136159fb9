"""The settings of queries with candidates, for sentence encoders."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from kdkit.data import Candidates, load_candidates, read_candidates
from kdkit.settings import STRICT, Every, Positive
from kdkit.training.embedding_settings import EmbeddingData


@dataclass(frozen=True, config=STRICT)
class CandidatesSettings(EmbeddingData):
    """The settings of queries with candidates, which a cross-encoder scores.

    Args:
        files: tuple of strings. Files as `kdkit.data.read_candidates` takes
            them. Repeated rows, and rows with a text of dev, are left out.
        held_out_every: int. Without `held_out`, one in so many queries is held
            out, beginning with the first.
        task, data_dir, table, dev_split, sequence_length, num_buckets: as in
            `EmbeddingData`.
        held_out: tuple of strings. Files of the same form to measure on. Empty
            to hold out queries of `files`.
        num_candidates: int or `None`. The number of candidates to use of each
            query: the positive and the first negatives. `None` for all.
        scale: float or `None`. The factor of the products of the student's
            vectors, which are its scores. `None` for 20 if the vectors have
            length 1, and 1 for other vectors.
        pair_length: int. The largest sequence length of a query with a
            candidate, for the teacher.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    held_out_every: Every = 20
    held_out: tuple[str, ...] = ()
    num_candidates: Every | None = None
    scale: Positive | None = None
    pair_length: Annotated[int, Field(ge=4)] = 256

    stage_data: ClassVar[str] = "candidates"

    def read(self, held_out: bool = False) -> Candidates:
        """Returns the queries of `files`, or those of `held_out`.

        Args:
            held_out: bool. Defaults to `False`.
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
