"""Reads queries, documents and judgements of which document is relevant."""

import dataclasses
import pathlib

from kdkit.data.examples import at, label_parser, without_blank_end
from kdkit.data.tables import open_table
from kdkit.errors import UsageError
from kdkit.io.reading import has_text, numbered_lines

# Headings by their meaning; the first are those of BEIR's files.
IDS = ("_id", "id")
TEXT, TITLE = "text", "title"
QUERIES = ("query-id", "query_id", "query")
DOCUMENTS = ("corpus-id", "corpus_id", "document_id", "document")
RELEVANCES = ("score", "relevance")


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
        queries: path of the queries: a table with the columns `_id` (or `id`)
            and `text`, as `kdkit.data.open_table` reads it, JSON lines
            included; or a file of tab-separated ids and texts without a header,
            as in MS MARCO.
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
    queries, documents, judgements = map(
        pathlib.Path, (queries, documents, judgements)
    )
    found = _texts(queries, needs_text=True)
    others = _texts(documents)
    numbers = {one: number for number, one in enumerate(others)}
    relevant = {}
    for query, document, relevance in _judgements(judgements, found, others):
        if relevance > 0 and not (ignore_same_id and query == document):
            relevant.setdefault(query, {})[numbers[document]] = relevance
    used = [one for one in found if one in relevant]
    return Retrieval(
        [found[one] for one in used],
        list(others.values()),
        {number: relevant[one] for number, one in enumerate(used)},
        len(found) - len(used),
        {
            number: numbers[one]
            for number, one in enumerate(used)
            if ignore_same_id and one in numbers
        },
    )


def _texts(path, needs_text=False) -> dict[str, str]:
    """The texts of a file by their ids."""
    found = {}
    for place, (key, *parts) in _rows(path, _id_and_text, _id_tab_text):
        text = " ".join(filter(has_text, parts))
        if not key or key in found or (needs_text and not text):
            raise UsageError(
                f"{path}, {place}: expected an id that occurs once, and a "
                f"text. Received: {key!r}, {text!r}."
            )
        found[key] = text
    return found


def _id_and_text(headings):
    """The columns to read, `None` for a file without a header."""
    key = next((one for one in IDS if one in headings), None)
    if key is None or TEXT not in headings:
        return None
    return (key, TITLE, TEXT) if TITLE in headings else (key, TEXT)


def _id_tab_text(line):
    key, text = line.split("\t")
    return key.strip(), text.strip()


def _judgements(path, queries, documents):
    """Yields queries, documents and their relevances."""
    seen = set()
    parse = label_parser(None)
    for place, cells in _rows(path, _judged, _trec):
        query, document, relevance = cells
        with at(path, place):
            if query not in queries or document not in documents:
                raise UsageError(f"unknown id, {query} or {document}.")
            if (query, document) in seen:
                raise UsageError(f"another judgement of {query}, {document}.")
            seen.add((query, document))
            relevance = parse(relevance)
        yield query, document, relevance


def _judged(headings):
    columns = tuple(
        next((one for one in names if one in headings), None)
        for names in (QUERIES, DOCUMENTS, RELEVANCES)
    )
    return None if None in columns else columns


def _trec(line):
    query, _, document, relevance = line.split()
    return query, document, relevance


def _rows(path, columns_in, split):
    """Yields the rows of a table, or of a file of lines without a header."""
    table = open_table(path, (*IDS, TITLE, TEXT, *QUERIES, *DOCUMENTS))
    columns = columns_in(table.headings)
    if columns is not None:
        yield from table.columns(columns)
        return
    for number, line in without_blank_end(numbered_lines(path)):
        with at(path, f"line {number}"):
            cells = split(line)
        yield f"line {number}", cells
