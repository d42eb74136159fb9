"""Reads queries with candidates: a relevant document, and others."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable

from kdkit.data.tables import BREAKS, open_table
from kdkit.errors import UsageError
from kdkit.io.reading import has_text

QUERY, POSITIVE, NEGATIVES = "query", "positive", "negatives"
NEGATIVE = re.compile(r"negative(_\d+)?")


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """Queries, each with the same number of candidates to rank.

    Args:
        queries: list of strings.
        documents: list of tuples of strings, all of the same length: the
            candidates of each query. The first one is relevant.

    >>> rows = Candidates(["a dog"], [("A dog runs.", "A cat sleeps.")])
    >>> len(rows), rows.num_candidates
    (1, 2)
    """

    queries: list[str]
    documents: list[tuple[str, ...]]

    def __len__(self):
        return len(self.queries)

    @property
    def num_candidates(self) -> int:
        """The number of candidates of every query."""
        return len(self.documents[0])

    def take(self, rows: Iterable[int]) -> "Candidates":
        """Returns the queries with the given numbers, in the given order."""
        rows = list(rows)
        return Candidates(
            [self.queries[row] for row in rows],
            [self.documents[row] for row in rows],
        )


def read_candidates(
    files: Iterable, num_candidates: int | None = None
) -> Candidates:
    """Reads files of queries with candidates.

    Args:
        files: iterable of paths. Each is a table, as `kdkit.data.open_table`
            reads it, with the columns `query`, `positive` and `negative`, and
            further ones `negative_2`, `negative_3`...; or JSON lines with the
            keys `query`, `positive` and `negatives`, a list.
        num_candidates: int or `None`. Use the positive and so many first
            negatives that they are `num_candidates` together. `None` for all;
            every query then needs the same number of negatives. Defaults to
            `None`.

    Returns:
        `Candidates` in the order of the files.

    Raises:
        UsageError: (a `ValueError`) for a missing column, and with file and
            place for an empty query or document, and for another number of
            negatives.
    """
    queries, documents = [], []
    for file in map(pathlib.Path, files):
        for place, query, *found in _rows(file):
            candidates = tuple(found)[:num_candidates]
            count = num_candidates or len((documents or [candidates])[0])
            count = max(count, 2)
            if len(candidates) != count or not all(
                isinstance(one, str) and has_text(one)
                for one in (query, *candidates)
            ):
                raise UsageError(
                    f"{file}, {place}: expected texts as query, positive and "
                    f"{count - 1} negatives. Received: {[query, *found]}."
                )
            query, *candidates = (
                BREAKS.sub(" ", one).strip() for one in (query, *candidates)
            )
            queries.append(query)
            documents.append(tuple(candidates))
    return Candidates(queries, documents)


def _rows(path):
    """Yields the place, the query and the candidates of each row."""
    table = open_table(path, (QUERY, POSITIVE, "negative"))
    columns = [one for one in table.headings if NEGATIVE.fullmatch(one)]
    if columns and NEGATIVES in table.headings:
        raise UsageError(f"{path} has {NEGATIVES} beside {columns}.")
    if columns:
        for place, cells in table.cells((QUERY, POSITIVE, *columns)):
            yield place, *cells
        return
    for place, cells in table.cells((QUERY, POSITIVE, NEGATIVES)):
        query, positive, negatives = cells
        if not isinstance(negatives, list):
            raise UsageError(
                f"{path}, {place}: expected a list of negatives. Received: "
                f"{negatives!r}."
            )
        yield place, query, positive, *negatives
