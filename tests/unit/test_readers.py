"""Readers of users' files: one content in every format, and any bytes."""

import contextlib
import csv
import itertools
import json
import pathlib
import re
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
import tensorflow_datasets
from hypothesis import given
from hypothesis import strategies as st

from kdkit import data
from kdkit.config.data import Corpus
from kdkit.data import word_vectors
from kdkit.data.layouts import read_table
from kdkit.data.retrieval import read_candidates, read_retrieval
from kdkit.data.texts import corpus_texts, parallel_pairs
from kdkit.data.unlabeled import read_unlabeled
from kdkit.tasks import TASKS, from_table

RANKED = [("a dog", "A dog runs.", "A cat.", "Rain."),
          ("a cat", "A cat.", "Snow.", "A dog runs.")]  # fmt: skip
RANKED_COLUMNS = ("query", "positive", "negative", "negative_2")
COLUMNS = {"text_column": "text", "label_column": "label"}


def write(path, rows, columns=("text", "label")):
    """Writes examples as programs do: csv, tsv, JSON lines, Arrow."""
    if path.suffix == ".parquet":
        table = pa.table([*map(list, zip(*rows, strict=True))], [*columns])
        pa.parquet.write_table(table, path)
        return path
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            for row in rows:
                line = json.dumps(dict(zip(columns, row, strict=True)))
                file.write(f"{line}\n")
        elif path.suffix == ".tsv" and "quoted" not in path.name:
            file.writelines("\t".join(row) + "\n" for row in [columns, *rows])
        else:
            separator = "\t" if path.suffix == ".tsv" else ","
            writer = csv.writer(file, delimiter=separator)
            writer.writerows([columns, *rows])
    return path


def texts(path, content):
    path.write_text(content, encoding="utf-8")
    return str(path)


# What each reader of columns gives of two of them.
def parallel(path, *columns):
    return list(parallel_pairs([path], columns))


def unlabeled(path, *columns):
    read = read_unlabeled([path], columns, 2).texts
    return list(zip(*read, strict=True))


def corpus(path, *columns):
    read = (corpus_texts([path], column) for column in columns)
    return list(zip(*read, strict=True))


def pairs_of_task(path, *columns):
    task = from_table(
        test=path, text_column=columns, label_column="label", labels=["x", "y"]
    )
    return list(zip(*task.load("test").texts, strict=True))


READERS = (parallel, unlabeled, corpus, pairs_of_task)
SAID = 'he said "no", twice'


@pytest.mark.parametrize(
    ("read", "suffix"),
    [
        *itertools.product(READERS, ["csv", "tsv"]),
        *itertools.product((unlabeled, pairs_of_task), ["quoted.tsv"]),
        (pairs_of_task, "jsonl"),
        (pairs_of_task, "parquet"),
    ],
)
def test_columns_are_found_by_their_names(read, suffix, tmp_path):
    rows = [("1", SAID, "b", "x"), ("2", "c", "d", "y")]
    path = tmp_path / f"a.{suffix}"
    write(path, rows, ("id", "en", "de", "label"))
    assert read(path, "en", "de") == [(SAID, "b"), ("c", "d")]


@pytest.mark.parametrize("end", ["", "\n\n", "  \n\t\n\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_marks_line_ends_and_blank_ends_are_no_content(
    mark, newline, end, tmp_path
):
    lines = newline.join(["text\tlabel", "caf\u00e9 \u2028 a\tgood", end])
    path = tmp_path / "a.tsv"
    path.write_bytes(f"{mark}{lines}".encode())
    layout = data.TableLayout("Films", ("text",), "label", ("bad", "good"))
    found = read_table(path, layout)
    assert found.texts == (["caf\u00e9 \u2028 a"],)
    assert found.labels.tolist() == [1]
    if not end.strip(" \n"):
        assert list(corpus_texts([path], "label")) == ["good"]


def test_quotes_of_tables_with_tabs_are_text(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"no," he said\tbad\n"\tgood\n')
    layout = data.TableLayout("Films", ("text",), "label", ("bad", "good"))
    assert read_table(path, layout).texts == (['"no," he said', '"'],)
    task = from_table(test=path, **COLUMNS)
    assert task.load("test").texts == (['"no," he said', '"'],)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("\ufeffone\n\n  two\tstill two  \n", ["one", "two\tstill two"]),
        ('"Fine, thanks," he said.\nDull, they said', None),
        ("".join(f"text {n}\n" for n in range(5)) + "text\t1\n" * 40, None),
        ("a\ttext\n", None),
        ("one\t\ntwo\t\nthree\t\n", ["one", "two", "three"]),
        ("a\ttext\nof\tmany\ttabs", None),
        ("10 %\r20 %\nend", ["10 %\r20 %", "end"]),
        ("a" * 140_000 + "\nend", None),  # csv's own limit is 131,072
    ],
)
def test_lines_are_texts(content, lines, tmp_path):
    """Also with some commas, quotes and tabs."""
    file = texts(tmp_path / "a.txt", content)
    lines = content.splitlines() if lines is None else lines
    assert list(corpus_texts([file, file])) == 2 * lines
    assert read_unlabeled([file, file], (), 1).texts == (2 * lines,)


def test_empty_cells_are_no_unlabelled_examples(tmp_path):
    path = write(tmp_path / "a.csv", [("a", "1"), ("", "2"), ("b", "3")])
    assert read_unlabeled([path], ("text",), 1).texts == (["a", "b"],)


def test_blank_lines_of_a_document_are_lines(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(" a b \n\nc\n")
    files = {"files": (str(file),), "held_out": (str(file),)}
    document = Corpus(**files, one_document=True)
    assert list(document.texts(True)) == ["a b\n", "\n", "c\n", ""]
    assert document.num_words() == 3 + 3
    texts = Corpus(**files)
    assert list(texts.texts(True)) == ["a b", "c"]
    assert texts.num_words() == 3 + 2


def test_lines_of_two_files_are_pairs(tmp_path):
    files = (
        texts(tmp_path / "a.en", "one\ntwo\n\n"),
        texts(tmp_path / "a.de", "eins\nzwei"),
    )
    found = parallel_pairs(files)
    assert list(found) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize("suffix", ["tsv", "jsonl", "parquet"])
def test_candidates_are_a_query_and_its_texts(suffix, tmp_path):
    rows, columns = RANKED, RANKED_COLUMNS
    if suffix == "jsonl":
        rows = [(query, first, others) for query, first, *others in RANKED]
        columns = ("query", "positive", "negatives")
    file = write(tmp_path / f"a.{suffix}", rows, columns)
    found = read_candidates([file, file])
    assert found.queries == [row[0] for row in RANKED] * 2
    assert found.documents == [row[1:] for row in RANKED] * 2
    assert (len(found), found.num_candidates) == (4, 3)
    assert found.take([1]).documents == [RANKED[1][1:]]


@pytest.mark.parametrize("last", ["", "Hail."])
def test_the_first_candidates_are_used_if_a_number_is_named(last, tmp_path):
    rows = [RANKED[0], (*RANKED[1][:3], last)]
    file = write(tmp_path / "a.tsv", rows, RANKED_COLUMNS)
    found = read_candidates([file], num_candidates=2)
    assert found.documents == [row[1:3] for row in RANKED]


RETRIEVAL = {
    "headings": (
        "tsv",
        "_id\ttext\nq1\tred wine\nq2\tcats\nq3\tno one judged this\n",
        "_id\ttitle\ttext\nd1\tWine\tis red\nd2\t\ta cat\nd3\tDogs\t\n",
        "query-id\tcorpus-id\tscore\nq2\td2\t2\nq1\td1\t1\nq2\td3\t0\n",
    ),
    # As in MS MARCO and TREC.
    "no headings": (
        "tsv",
        "1\tred wine\n2\tcats\n",
        "7\tWine is red\n8\ta cat\n9\tDogs\n",
        "1 0 7 1\n2\t0\t8\t2\n2 0 9 0\n",
    ),
    # As in BEIR.
    "objects": (
        "jsonl",
        '{"_id": 1, "text": "red wine"}\n{"_id": 2, "text": "cats"}',
        '{"_id": "d", "title": "Wine", "text": "is red", "metadata": {}}\n'
        '{"_id": "e", "text": "a cat"}\n{"_id": "f", "text": "Dogs"}',
        "query-id\tcorpus-id\tscore\n1\td\t1\n2\te\t2\n2\tf\t0\n",
    ),
}


@pytest.mark.parametrize("kind", RETRIEVAL)
def test_judgements_are_numbers_of_queries_and_documents(kind, tmp_path):
    suffix, *contents = RETRIEVAL[kind]
    names = (f"q.{suffix}", f"d.{suffix}", "j.tsv")
    found = read_retrieval(
        *(
            texts(tmp_path / name, content)
            for name, content in zip(names, contents, strict=True)
        )
    )
    assert found.queries == ["red wine", "cats"]
    assert found.documents == ["Wine is red", "a cat", "Dogs"]
    judged = {
        query: {one: value for one, value in those.items() if value}
        for query, those in found.judgements.items()
    }
    assert judged == {0: {0: 1.0}, 1: {1: 2.0}}
    assert found.num_left_out == ("q3" in contents[0])


@pytest.mark.parametrize(
    ("task", "labels", "expected"),
    [
        ("mrpc", np.array([1, 0], "int64"), [1, 0]),
        ("stsb", np.array([1.5, 4.0], "float32"), [1.5, 4.0]),
        ("mrpc", np.array([-1, -1], "int64"), None),  # hidden
        ("stsb", np.array([-1, -1], "float32"), None),
    ],
)
def test_tensorflow_datasets_are_read(task, labels, expected, monkeypatch):
    columns = {
        "idx": [0, 1],
        "label": labels,
        "sentence1": ["caf\u00e9 ", "c"],
        "sentence2": ["b", "d"],
    }

    def load(name, split, batch_size):
        assert (name, split) == (f"glue/{task}", "validation")
        assert batch_size == -1  # all rows at once
        return {feature: tf.constant(columns[feature]) for feature in columns}

    monkeypatch.setattr(tensorflow_datasets, "load", load)
    found = TASKS[task].load("dev")
    assert found.texts == (["caf\u00e9", "c"], ["b", "d"])
    if expected is None:
        assert found.labels is None
        return
    assert found.labels.tolist() == expected
    assert found.labels.dtype == ("int32" if task == "mrpc" else "float32")


VECTORS = "the 1 2\nfilm -0.5 1e-1\nfilm 9 9\nrest 9 9\n"


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_vectors_are_in_the_order_of_the_words(header, tmp_path):
    """As GloVe and word2vec write them; of two the first counts."""
    path = texts(tmp_path / "vectors.txt", header + VECTORS)
    words = ["film", "", "dull", "the"]
    vectors, found = word_vectors.read_word_vectors(path, words)
    assert vectors.dtype == "float32"
    np.testing.assert_allclose(vectors, [[-0.5, 0.1], [0, 0], [0, 0], [1, 2]])
    assert found.tolist() == [True, False, False, True]
    assert word_vectors.word_vector_width(path) == 2
    words, vectors = word_vectors.read_all_word_vectors(path)
    assert words == ["the", "film", "rest"]
    np.testing.assert_allclose(vectors, [[1, 2], [-0.5, 0.1], [9, 9]])
    words, _ = word_vectors.read_all_word_vectors(path, most=2)
    assert words == ["the", "film"]


def test_words_with_blanks_have_vectors(tmp_path):
    path = texts(tmp_path / "vectors.txt", "2 3\n. . . 1 2 3\na 4 5 6\n")
    vectors, _ = word_vectors.read_word_vectors(path, ["a", ". . ."])
    np.testing.assert_allclose(vectors, [[4, 5, 6], [1, 2, 3]])


def test_pieces_of_words_and_special_ones_are_no_words():
    pieces = ["[PAD]", "[unused1]", "the", "##s", "[", "]"]
    assert word_vectors.words_of_pieces(pieces) == ["", "", "the", "", "[", "]"]


some_texts = st.text(
    "ab\"',;\\ \té中\u00a0=#-0", min_size=1, max_size=12
).filter(lambda text: text.strip())
some_rows = st.lists(
    st.tuples(some_texts, st.sampled_from(["no", "yes"])), min_size=1
)
pieces = st.sampled_from(
    [b"text", b"label", b",", b"\t", b";", b"\n", b"\r\n", b'"', b"yes", b"no"]
    + [b"{", b"}", b":", b"[", b"\xff", b"\x00", b"\xef\xbb\xbf", b"0.5", b"a"]
)
damaged = st.lists(pieces, max_size=40).map(b"".join) | st.binary(max_size=60)


@given(rows=some_rows, suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
def test_a_row_is_read_as_it_was_written(rows, suffix):
    """Only blanks around a text are lost, and tabs in it are one blank."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(pathlib.Path(folder, "table" + suffix), rows)
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
            lambda: list(corpus_texts([path])),
        ):
            with contextlib.suppress(ValueError, UnicodeError, csv.Error):
                read()
