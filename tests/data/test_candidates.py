"""Files of queries with candidates: rows that are read, and errors."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from kdkit.data import load_candidates, read_candidates
from kdkit.errors import UsageError
from kdkit.training.candidate_settings import CandidatesSettings

HEADER = "query\tpositive\tnegative\tnegative_2\n"
ROWS = [("a dog", "A dog runs.", "A cat.", "Rain."),
        ("a cat", "A cat.", "Snow.", "A dog runs.")]  # fmt: skip


def table(path, rows=ROWS, header=HEADER):
    path.write_text(header + "".join("\t".join(row) + "\n" for row in rows))
    return path


def objects(path, rows=ROWS):
    path.write_text(
        "".join(
            json.dumps({"query": q, "positive": p, "negatives": others}) + "\n"
            for q, p, *others in rows
        )
    )
    return path


def columnar(path, rows=ROWS):
    names = HEADER.split()
    columns = map(list, zip(*rows, strict=True))
    pyarrow.parquet.write_table(
        pa.table(dict(zip(names, columns, strict=True))), path
    )
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [(table, "a.tsv"), (objects, "a.jsonl"), (columnar, "a.parquet")],
)
def test_all_formats_give_the_same_candidates(write, name, tmp_path):
    file = write(tmp_path / name)
    found = read_candidates([file, file])
    assert found.queries == [row[0] for row in ROWS] * 2
    assert found.documents == [row[1:] for row in ROWS] * 2
    assert (len(found), found.num_candidates) == (4, 3)
    assert found.take([1]).documents == [ROWS[1][1:]]


def test_the_first_negatives_are_used_if_a_number_is_named(tmp_path):
    uneven = [ROWS[0], (*ROWS[1], "Hail.")]
    file = objects(tmp_path / "a.jsonl", uneven)
    found = read_candidates([file], num_candidates=2)
    assert found.documents == [row[1:3] for row in ROWS]
    one_empty = table(tmp_path / "a.tsv", [ROWS[0], (*ROWS[1][:3], "")])
    assert read_candidates([one_empty], 2).documents == found.documents
    with pytest.raises(UsageError, match="line 3: expected a text as each"):
        read_candidates([one_empty])
    with pytest.raises(
        UsageError, match=r"line 2: expected 2 neg(.|\n)*can.*3"
    ):
        read_candidates([file])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"query": " ", "positive": "a", "negatives": ["b"]}, "text as query"),
        ({"query": "a", "positive": None, "negatives": ["b"]}, "as positive"),
        ({"query": "a", "positive": "b", "negatives": []}, "at least 1 neg"),
        ({"query": "a", "positive": "b"}, "a list of texts as negatives"),
        ({"query": "a", "positive": "b", "negatives": [3]}, "as each neg"),
    ],
)
def test_a_malformed_row_is_named(line, message, tmp_path):
    file = objects(tmp_path / "a.jsonl", ROWS[:1])
    with open(file, "a") as lines:
        lines.write(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=f"line 2: .*{message}"):
        read_candidates([file])


def test_all_mistakes_in_all_files_are_reported_together(tmp_path):
    wrong = table(tmp_path / "a.tsv", header="query\tpositive\tother\tmore\n")
    empty = table(tmp_path / "b.tsv", rows=[])
    with pytest.raises(UsageError) as raised:
        read_candidates([wrong, empty, tmp_path / "c.tsv"])
    message = str(raised.value)
    assert "a.tsv: expected a table with the columns query" in message
    assert "b.tsv has no queries" in message
    assert "c.tsv does not exist" in message


def test_generated_queries_share_most_words_with_the_relevant_sentence():
    rows = load_candidates("dev", num_queries=20, num_candidates=3)
    assert (len(rows), rows.num_candidates) == (20, 3)
    for query, documents in zip(rows.queries, rows.documents, strict=True):
        words = set(query.split())
        shares = [
            len(words & set(one.split())) / len(words | set(one.split()))
            for one in documents
        ]
        assert shares[0] == max(shares)


def test_settings_report_mistakes_in_rows_of_all_files(tmp_path):
    rows = [ROWS[0], ("a dog", " ", "A cat.", "Rain.")]
    files = [str(table(tmp_path / name, rows)) for name in ("a.tsv", "b.tsv")]
    with pytest.raises(UsageError) as raised:
        CandidatesSettings((files[0],), held_out=(files[1],)).check()
    message = str(raised.value)
    assert message.count("line 3: expected a text as positive") == 2
    assert all(file in message for file in files)
