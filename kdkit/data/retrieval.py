"""Reads queries with documents: judged ones, or candidates to rank."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator

from kdkit.data.tables import (
    BREAKS,
    Columns,
    at,
    filled_lines,
    label_parser,
    open_table,
)
from kdkit.errors import UsageError
from kdkit.io.reading import has_text

# Headings of BEIR's files.
TEXTS, TITLE = ("_id", "text"), "title"
JUDGEMENTS = ("query-id", "corpus-id", "score")
QUERY, POSITIVE, NEGATIVES = "query", "positive", "negatives"
NEGATIVE = re.compile(r"negative(_\d+)?")


@dataclasses.dataclass(frozen=True, eq=False)
class Retrieval:
    """Queries, documents, and which document is relevant for which query.

    Args:
        queries: list of strings. Queries without a relevant document are not
            in it.
        documents: list of strings.
        judgements: dict from the number of a query to a dict from the number
            of a document to its relevance.
        num_left_out: int. Queries in the file that are not in `queries`.
        ignored: dict from the number of a query to the number of the document
            with its id, if these documents are ignored.
    """

    queries: list[str]
    documents: list[str]
    judgements: dict[int, dict[int, float]]
    num_left_out: int = 0
    ignored: dict[int, int] = dataclasses.field(default_factory=dict)


def read_retrieval(
    queries, documents, judgements, ignore_same_id: bool = False
) -> Retrieval:
    """Reads the files of a retrieval benchmark, such as those of BEIR.

    Args:
        queries: path of the queries: a table with the columns `_id` and
            `text`, as `kdkit.data.open_table` reads it, JSON lines included; or
            a file of tab-separated ids and texts without a header, as in MS
            MARCO.
        documents: path of the documents, the same. A `title` is read before the
            text.
        judgements: path of a table with the columns `query-id`, `corpus-id` and
            `score`, or of TREC's lines of a query, an unused word, a document
            and a relevance, separated by spaces. A relevance of at most 0 is
            not relevant.
        ignore_same_id: bool. Whether to ignore the document with a query's id,
            as BEIR does: in ArguAna and Quora the queries are also documents.
            Optional. Defaults to `False`.

    Returns:
        `Retrieval`. Its texts are in the order of the files.

    Raises:
        UsageError: (a `ValueError`) with file and place for a malformed line,
            an id or a judgement that occurs twice, a query without a text, and
            a judgement of an unknown query or document.
    """
    found, others = _texts(queries, needs_text=True), _texts(documents)
    numbers = {one: number for number, one in enumerate(others)}
    judged, relevant = set(), collections.defaultdict(dict)
    parse = label_parser(None)
    rows = _rows(judgements, JUDGEMENTS, _trec)
    for place, (query, document, relevance) in rows:
        with at(judgements, place):
            if query not in found or document not in others:
                raise UsageError(f"unknown id, {query} or {document}.")
            if (query, document) in judged:
                raise UsageError(f"another judgement of {query}, {document}.")
            judged.add((query, document))
            relevance = parse(relevance)
        if relevance > 0 and not (ignore_same_id and query == document):
            relevant[query][numbers[document]] = relevance
    used = [one for one in found if one in relevant]
    same = used if ignore_same_id else ()
    return Retrieval(
        [found[one] for one in used],
        list(others.values()),
        {number: relevant[one] for number, one in enumerate(used)},
        len(found) - len(used),
        {n: numbers[one] for n, one in enumerate(same) if one in numbers},
    )


def _texts(path, needs_text=False) -> dict[str, str]:
    """The texts of a file by their ids."""
    found = {}
    rows = _rows(path, TEXTS, _id_and_text)
    for place, (key, text, *title) in rows:
        text = " ".join(filter(has_text, (*title, text)))
        if not key or key in found or (needs_text and not text):
            raise UsageError(
                f"{path}, {place}: expected an id that occurs once, and a "
                f"text. Received: {key!r}, {text!r}."
            )
        found[key] = text
    return found


def _id_and_text(line):
    key, text = line.split("\t")
    return key.strip(), text.strip()


def _trec(line):
    query, _, document, relevance = line.split()
    return query, document, relevance


def _rows(path, names, split):
    """Yields the rows of a table, or of a file of lines without a header."""
    table = open_table(path, names)
    if {*names} <= {*table.headings}:
        title = [one for one in table.headings if one == TITLE]
        yield from table.columns([*names, *title])
        return
    for number, line in filled_lines(path):
        with at(path, f"line {number}"):
            cells = split(line)
        yield f"line {number}", cells


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates(Columns):
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

    @property
    def num_candidates(self) -> int:
        """The number of candidates of every query."""
        return len(self.documents[0])

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields each query with its candidates."""
        for query, documents in zip(self.queries, self.documents, strict=True):
            yield query, *documents


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
    for file in files:
        table = open_table(file, (QUERY, POSITIVE, "negative"))
        columns = [one for one in table.headings if NEGATIVE.fullmatch(one)]
        names = (QUERY, POSITIVE, *(columns or [NEGATIVES]))
        for place, (query, positive, *found) in table.cells(names):
            if not columns:
                found = found[0] if isinstance(found[0], list) else []
            texts = [query, *[positive, *found][:num_candidates]]
            count = max(2, num_candidates or len((documents or [texts[1:]])[0]))
            if len(texts) != 1 + count or not all(map(_is_text, texts)):
                raise UsageError(
                    f"{file}, {place}: expected texts as query and positive, "
                    f"and a list of {count - 1} negatives. Received: {texts}."
                )
            query, *texts = (BREAKS.sub(" ", text).strip() for text in texts)
            queries.append(query)
            documents.append(tuple(texts))
    return Candidates(queries, documents)


def _is_text(cell):
    return isinstance(cell, str) and has_text(cell)
