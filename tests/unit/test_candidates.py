"""Files of queries with candidates: rows that are read, and errors."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from kdkit.data import read_candidates

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
