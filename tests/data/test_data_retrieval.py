"""Queries, documents and judgements: their formats, and mistakes in them."""

import json

import pytest

from kdkit import data
from kdkit.errors import UsageError

QUERIES = "_id\ttext\nq1\tred wine\nq2\tcats\nq3\tno one judged this\n"
DOCUMENTS = "_id\ttitle\ttext\nd1\tWine\tis red\nd2\t\ta cat\nd3\tDogs\t\n"
JUDGEMENTS = "query-id\tcorpus-id\tscore\nq2\td2\t2\nq1\td1\t1\nq2\td3\t0\n"


def read(folder, queries=QUERIES, documents=DOCUMENTS, judgements=JUDGEMENTS):
    paths = []
    for name, content in (
        ("queries.tsv", queries),
        ("documents.tsv", documents),
        ("judgements.tsv", judgements),
    ):
        paths.append(folder / name)
        paths[-1].write_text(content, encoding="utf-8")
    return data.read_retrieval(*paths)


def test_files_with_headers_are_read(tmp_path):
    found = read(tmp_path)
    assert found.queries == ["red wine", "cats"]
    assert found.documents == ["Wine is red", "a cat", "Dogs"]
    assert found.judgements == {0: {0: 1.0}, 1: {1: 2.0}}
    assert found.num_left_out == 1


def test_files_without_headers_are_read(tmp_path):
    """As in MS MARCO and TREC."""
    found = read(
        tmp_path,
        '1\tred "wine"\n2\tcats\n',
        "7\tWine is red\n8\ta cat\n",
        "1 0 7 1\n2\t0\t8\t3\n",
    )
    assert found.queries == ['red "wine"', "cats"]
    assert found.documents == ["Wine is red", "a cat"]
    assert found.judgements == {0: {0: 1.0}, 1: {1: 3.0}}


def test_json_lines_are_read(tmp_path):
    """As in BEIR."""
    (tmp_path / "q.jsonl").write_text(json.dumps({"_id": 1, "text": "cats"}))
    lines = [{"_id": "d", "title": "A", "text": "cat", "metadata": {}}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "j.tsv").write_text("query-id\tcorpus-id\tscore\n1\td\t1\n")
    found = data.read_retrieval(
        tmp_path / "q.jsonl", tmp_path / "d.jsonl", tmp_path / "j.tsv"
    )
    assert (found.queries, found.documents) == (["cats"], ["A cat"])
    assert found.judgements == {0: {0: 1.0}}


def test_unknown_queries_and_documents_are_all_listed(tmp_path):
    lines = [f"q1\tx{number}\t1\nq1\tx{number}a\t0\n" for number in range(6)]
    with pytest.raises(UsageError) as raised:
        read(tmp_path, judgements=f"{JUDGEMENTS}q9\td1\t1\n{''.join(lines)}")
    queries, documents = str(raised.value).splitlines()
    assert "1 unknown queries: 'q9' (line 5)." in queries
    assert "queries.tsv" in queries
    assert "12 unknown documents: 'x0' (line 6), 'x0a' (line 7)," in documents
    assert " and 2 more. Add them to " in documents


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"queries": "_id\ttext\n"}, "queries.tsv has no queries"),
        ({"documents": ""}, "documents.tsv is empty"),
        ({"judgements": "query-id\tcorpus-id\tscore\n"}, "has no judgements"),
        (
            {"queries": "_id\ttext\nq1\ta\nq1\tb\n\tc\nq2\t \n"},
            "line 3: expected each id once(.|\n)*line 4: expected an id(.|\n)*"
            "line 5: expected a text",
        ),
        ({"queries": "key\tquestion\tnote\n"}, "the columns 'key', 'quest"),
        ({"documents": "1\tone\n2\tb\tc\n"}, "line 2: expected an id, a tab"),
        (
            {"judgements": JUDGEMENTS + "q1\td2\tmany\nq1\td1\t0\n"},
            "line 5: expected a number as relevance. Received: 'many'\n"
            ".*line 6: expected one judgement",
        ),
        ({"judgements": "q1 d1 1\n"}, "expected a table with the columns"),
        ({"judgements": "q1 0 d1 1\nq1 d1\n"}, "line 2: expected 4 words"),
        ({"judgements": "q1 0 d1 0\n"}, "1 judgements, none of a relevant"),
    ],
    ids=["no_queries", "no_documents", "no_judgements", "ids", "columns",
         "tabs", "numbers", "three_words", "two_words", "irrelevant"],
)  # fmt: skip
def test_mistakes_are_reported_with_file_and_line(files, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        read(tmp_path, **files)


def test_mistakes_in_several_files_are_reported_together(tmp_path):
    with pytest.raises(UsageError) as raised:
        read(tmp_path, queries="", documents="", judgements="a b\n")
    assert len(str(raised.value).splitlines()) == 3
