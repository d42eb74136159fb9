"""Reads queries, documents and judgements of which document is relevant."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator

from kdkit.data.examples import (
    MAX_PROBLEMS,
    label_parser,
    raise_problems,
    without_blank_end,
)
from kdkit.data.tables import Row, open_table
from kdkit.errors import UsageError, all_mistakes, shortened
from kdkit.io.reading import has_text, numbered_lines

# Headings by their meaning; the first are those of BEIR's files.
IDS = ("_id", "id")
TEXT, TITLE = "text", "title"
QUERIES = ("query-id", "query_id", "query")
DOCUMENTS = ("corpus-id", "corpus_id", "document_id", "document")
RELEVANCES = ("score", "relevance")
IN_WORDS = {
    "queries": "a table with the columns _id and text, JSON lines with these "
    "keys, or lines of an id, a tab and a text",
    "judgements": "a table with the columns query-id, corpus-id and score, or "
    "TREC's lines of a query, 0, a document and a relevance",
}
IN_WORDS["documents"] = IN_WORDS["queries"]


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
        UsageError: (a `ValueError`) with all mistakes in a file: malformed
            lines, ids that occur twice, judgements that name unknown queries or
            documents; or if no document is relevant.
    """
    texts = {}
    with all_mistakes() as check:
        for what, path in (("queries", queries), ("documents", documents)):
            with check():
                texts[what] = _texts(pathlib.Path(path), what)
        with check():
            judged = _judgements(pathlib.Path(judgements))
    found, ids = texts["queries"], {}
    with all_mistakes() as check:
        for place, what, path in (
            (0, "queries", queries),
            (1, "documents", documents),
        ):
            ids[what] = {one: number for number, one in enumerate(texts[what])}
            with check():
                _require_known(judgements, judged, place, what, path, ids[what])
    relevant = {}
    for query, document, relevance, _ in judged:
        if relevance > 0 and not (ignore_same_id and query == document):
            one = relevant.setdefault(query, {})
            one[ids["documents"][document]] = relevance
    if not relevant:
        raise UsageError(
            f"{judgements}: expected a relevance above 0. Received: "
            f"{len(judged)} judgements, none of a relevant document."
        )
    used = [one for one in found if one in relevant]
    return Retrieval(
        [found[one] for one in used],
        list(texts["documents"].values()),
        {number: relevant[one] for number, one in enumerate(used)},
        len(found) - len(used),
        {
            number: ids["documents"][one]
            for number, one in enumerate(used)
            if ignore_same_id and one in ids["documents"]
        },
    )


def _require_known(judgements, judged, place, what, path, ids):
    """Raises one error with the queries or documents that do not exist."""
    unknown = {}
    for one in judged:
        if one[place] not in ids:
            unknown.setdefault(one[place], one[-1])
    if not unknown:
        return
    listed = ", ".join(
        f"{shortened(one)} ({where})"
        for one, where in itertools.islice(unknown.items(), MAX_PROBLEMS)
    )
    more = len(unknown) - MAX_PROBLEMS
    raise UsageError(
        f"{judgements}: expected ids of {what} in {path}. Received: "
        f"{len(unknown)} unknown {what}: {listed}"
        f"{f' and {more} more' if more > 0 else ''}. Add them to {path}, or "
        "remove their judgements."
    )


def _texts(path, what) -> dict[str, str]:
    """The texts of a file by their ids."""
    found, problems = {}, []
    for row in _rows(path, what, _id_and_text):
        problem, cells = row.problem, row.cells
        if problem is None:
            key, *parts = cells
            text = " ".join(filter(has_text, parts))
            if not key:
                problem = "expected an id. Received: an empty one"
            elif key in found:
                problem = f"expected each id once. Received: {shortened(key)}"
            elif what == "queries" and not text:
                problem = f"expected a text. Received: none for {key!r}"
            else:
                found[key] = text
        if problem is not None:
            problems.append(f"{row.place}: {problem}")
    raise_problems(path, problems)
    _require_rows(path, what, found)
    return found


def _id_and_text(headings):
    """The columns to read, `None` for a file without a header."""
    key = next((one for one in IDS if one in headings), None)
    if key is None or TEXT not in headings:
        return None
    return (key, TITLE, TEXT) if TITLE in headings else (key, TEXT)


def _judgements(path) -> list[tuple[str, str, float, str]]:
    """Queries, documents, relevances and their places."""
    found, problems, seen = [], [], set()
    parse = label_parser(None)
    for row in _rows(path, "judgements", _judged):
        problem = row.problem
        if problem is None:
            query, document, relevance = row.cells
            try:
                value = parse(relevance)
            except UsageError:
                problem = (
                    "expected a number as relevance. Received: "
                    f"{shortened(relevance)}"
                )
            if problem is None and (query, document) in seen:
                problem = (
                    "expected one judgement of a query and a document. "
                    f"Received: another of {shortened(query)} and "
                    f"{shortened(document)}"
                )
        if problem is not None:
            problems.append(f"{row.place}: {problem}")
            continue
        seen.add((query, document))
        found.append((query, document, value, row.place))
    raise_problems(path, problems)
    _require_rows(path, "judgements", found)
    return found


def _judged(headings):
    columns = tuple(
        next((one for one in names if one in headings), None)
        for names in (QUERIES, DOCUMENTS, RELEVANCES)
    )
    return None if None in columns else columns


def _require_rows(path, what, found):
    if not found:
        raise UsageError(f"{path} has no {what}. Expected {IN_WORDS[what]}.")


def _rows(path, what, columns_in) -> Iterator[Row]:
    """Yields the rows of a table, or of a file of lines without a header."""
    if not path.exists():
        raise UsageError(f"{path} does not exist. Expected {IN_WORDS[what]}.")
    table = open_table(path, (*IDS, TITLE, TEXT, *QUERIES, *DOCUMENTS))
    columns = columns_in(table.headings)
    if columns is not None:
        yield from table.columns(columns)
        return
    if "tabs" not in table.rule or not _fits(table.headings, what):
        raise UsageError(
            f"{path}: expected {IN_WORDS[what]}. Received: {table.rule}, with "
            f"the columns {', '.join(map(shortened, table.headings))}."
        )
    for number, line in without_blank_end(numbered_lines(path)):
        yield _row(f"line {number}", line, what)


def _fits(headings, what):
    """Whether a first line is a row, and not the header of another table."""
    if what == "judgements":
        return _row("", "\t".join(headings), what).problem is None
    return len(headings) == 2


def _row(place, line, what):
    """A row of a file without a header."""
    if what == "judgements":
        cells, wanted = line.split(), "4 words"
        if len(cells) == 4:
            return Row(place, (cells[0], cells[2], cells[3]))
    else:
        cells = [cell.strip() for cell in line.split("\t")]
        wanted = "an id, a tab and a text"
        if len(cells) == 2:
            return Row(place, tuple(cells))
    return Row(place, (), f"expected {wanted}. Received: {shortened(line, 80)}")
