"""Queries, documents and judgements: their formats, and mistakes in them."""

import json

from kdkit import data

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
