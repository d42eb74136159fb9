"""Readers of users' tables: rows come back as written, bytes never crash."""

import contextlib
import csv
import json
import pathlib
import re
import tempfile

import pyarrow as pa
import pyarrow.parquet
from hypothesis import given
from hypothesis import strategies as st

from kdkit.data import Corpus, read_retrieval, read_unlabeled
from kdkit.errors import UsageError
from kdkit.tasks import from_table

COLUMNS = {"text_column": "text", "label_column": "label"}
CHARACTERS = "ab\"',;\\ \té中\u00a0=#-0"
texts = st.text(CHARACTERS, min_size=1, max_size=12).filter(
    lambda text: text.strip()
)
rows = st.lists(st.tuples(texts, st.sampled_from(["no", "yes"])), min_size=1)
pieces = st.sampled_from(
    [b"text", b"label", b",", b"\t", b";", b"\n", b"\r\n", b'"', b"yes", b"no"]
    + [b"{", b"}", b":", b"[", b"\xff", b"\x00", b"\xef\xbb\xbf", b"0.5", b"a"]
)
damaged = st.lists(pieces, max_size=40).map(b"".join) | st.binary(max_size=60)


def write(path, found):
    """Writes examples as programs do: csv, json, Arrow."""
    if path.suffix == ".parquet":
        columns = [pa.array(column) for column in zip(*found, strict=True)]
        pa.parquet.write_table(pa.table(columns, ["text", "label"]), path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            for text, label in found:
                file.write(json.dumps({"text": text, "label": label}) + "\n")
            return
        csv.writer(file).writerows([("text", "label"), *found])


@given(rows=rows, suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
def test_a_row_is_read_as_it_was_written(rows, suffix):
    """Only blanks around a text are lost, and tabs in it are one blank."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "table" + suffix)
        write(path, rows)
        task = from_table(test=path, labels=["no", "yes"], **COLUMNS)
        found = task.load("test")
    assert [*zip(*found.texts, found.labels, strict=True)] == [
        (re.sub("\t+", " ", text).strip(), label == "yes")
        for text, label in rows
    ]


@given(content=damaged, suffix=st.sampled_from(["csv", "tsv", "jsonl", "txt"]))
def test_damaged_bytes_are_a_table_or_an_error_of_one_line(content, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"table.{suffix}")
        path.write_bytes(content)
        for read in (
            lambda: from_table(test=path, **COLUMNS).load("test"),
            lambda: read_unlabeled([path], ("text",), 1),
            lambda: read_retrieval(path, path, path),
            Corpus((str(path),)).check,
        ):
            with contextlib.suppress(UsageError, UnicodeError, csv.Error):
                read()
