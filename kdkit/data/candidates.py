"""Reads queries with candidates: a relevant document, and others."""

import dataclasses
import pathlib
import re
from collections.abc import Iterable

from kdkit.data.examples import raise_problems
from kdkit.data.tables import BREAKS, open_table
from kdkit.errors import UsageError, all_mistakes, shortened
from kdkit.io.reading import has_text

QUERY, POSITIVE, NEGATIVES = "query", "positive", "negatives"
NEGATIVE = re.compile(r"negative(_\d+)?")
EXPECTED = (
    "a table with the columns query, positive and negative (negative_2, ...), "
    'or JSON lines {"query": ..., "positive": ..., "negatives": [...]}'
)


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
        UsageError: (a `ValueError`) with all mistakes: missing files and
            columns, an empty query or document, no negatives, or different
            numbers of them.
    """
    queries, documents, first = [], [], None
    with all_mistakes() as check:
        for file in map(pathlib.Path, files):
            with check():
                for place, query, found in _rows(file, num_candidates):
                    queries.append(query)
                    documents.append(found)
                    first = first or (file, place)
                    _require_same_number(documents, file, place, first)
    return Candidates(queries, documents)


def _open(path):
    """The table, and its columns of negatives; none for a column of lists."""
    if not path.exists():
        raise UsageError(f"{path} does not exist. Expected {EXPECTED}.")
    names = (QUERY, POSITIVE, NEGATIVES, "negative")
    table = open_table(path, names)
    columns = [one for one in table.headings if NEGATIVE.fullmatch(one)]
    is_list = NEGATIVES in table.headings
    missing = [one for one in (QUERY, POSITIVE) if one not in table.headings]
    if missing or is_list == bool(columns):
        raise UsageError(
            f"{path}: expected {EXPECTED}. Received: {table.rule}, with the "
            f"columns {', '.join(map(shortened, table.headings))}. Rename the "
            "columns."
        )
    if len(columns) > 1:  # columnar files read the wanted columns alone
        table = open_table(path, (QUERY, POSITIVE, *columns))
    table.require((QUERY, POSITIVE, *(columns or (NEGATIVES,))))
    return table, columns


def _rows(path, num_candidates):
    """Yields the place, the query and the candidates of each row."""
    table, columns = _open(path)
    places = [
        table.headings.index(one)
        for one in (QUERY, POSITIVE, *(columns or (NEGATIVES,)))
    ]
    problems, found = [], []
    for place, cells, problem in table.rows:
        if problem is None:
            query, positive, *negatives = (cells[one] for one in places)
            if not columns:
                (negatives,) = negatives
            problem = _problem(query, positive, negatives, num_candidates)
        if problem is not None:
            problems.append(f"{place}: {problem}")
            continue
        texts = (query, *(positive, *negatives)[:num_candidates])
        query, *texts = (BREAKS.sub(" ", one).strip() for one in texts)
        found.append((place, query, tuple(texts)))
    raise_problems(path, problems)
    if not found:
        raise UsageError(f"{path} has no queries. Expected {EXPECTED}.")
    return found


def _problem(query, positive, negatives, num_candidates):
    """Why a row is malformed, or `None`."""
    if not isinstance(negatives, list | tuple):
        return (
            "expected a list of texts as negatives. Received: "
            f"{shortened(negatives)}"
        )
    texts = {QUERY: query, POSITIVE: positive}
    for name, text in texts.items():
        if not isinstance(text, str) or not has_text(text):
            return f"expected a text as {name}. Received: {shortened(text)}"
    least = 1 if num_candidates is None else num_candidates - 1
    if len(negatives) < least:
        return (
            f"expected at least {least} negatives. Received: {len(negatives)}"
        )
    for text in negatives[: num_candidates and least]:
        if not isinstance(text, str) or not has_text(text):
            return (
                f"expected a text as each negative. Received: {shortened(text)}"
            )
    return None


def _require_same_number(documents, file, place, first):
    if len(documents[-1]) == len(documents[0]):
        return
    counts = [len(one) - 1 for one in (documents[0], documents[-1])]
    raise UsageError(
        f"{file}, {place}: expected {counts[0]} negatives, as for the first "
        f"query ({first[0]}, {first[1]}). Received: {counts[1]}. Use the same "
        "number for every query, or the first ones of each: --set "
        f"data.num_candidates={1 + min(counts)}."
    )
