"""Mistakes in data that would change a number unnoticed, by their place."""

import functools
import json

import keras_hub
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.encoders import tokenizer as family_tokenizer

from kdkit import data, tasks
from kdkit.data.augmented import read_copies
from kdkit.data.layouts import read_table
from kdkit.data.retrieval import read_candidates, read_retrieval
from kdkit.data.texts import corpus_texts, parallel_pairs, require_parallel
from kdkit.data.unlabeled import read_unlabeled
from kdkit.data.word_vectors import read_all_word_vectors as vectors

COLUMNS = {"text_column": "text", "label_column": "label"}
LAYOUT = data.TableLayout("own", ("text",), "label", ("bad", "good"))
SCORES = data.TableLayout("own", ("text",), "label")
built_in = functools.partial(read_table, layout=LAYOUT)
scores = functools.partial(read_table, layout=SCORES)


def own_table(path, **settings):
    tasks.from_table(path, **COLUMNS, **settings)


def pairs_of_rows(path):
    list(parallel_pairs([path], ("text", "label")))


def candidates(path):
    read_candidates([path])


def queries(path):
    read_retrieval(path, path, path)


def judgements(path):
    texts = path.with_name("texts.tsv")
    texts.write_text("_id\ttext\nq1\ta\nd1\tb\n")
    read_retrieval(texts, texts, path)


def copies(path):
    list(read_copies(path, num_texts=1, num_rows=3))


def numbered(label, count=40):
    return "text,label\n" + "".join(
        f"text {number},{label(number)}\n" for number in range(count)
    )


def ranked(**changes):
    row = {"query": "a", "positive": "b", "negatives": ["c"]}
    return "\n".join(map(json.dumps, (row, {**row, **changes})))


TABS = "text\tlabel\n"
COPIES = "source_row\tcolumn\tcopy\tsentence\n"
FILES = {
    "width": ("a.csv", "text,label\na,x\nb,y,z\n", own_table, "3: expected 2"),
    "blank": ("a.tsv", f"{TABS}a\tgood\n\n\tb", built_in, "3: expected 2"),
    "width_of_pairs": ("a.tsv", f"{TABS}a\n", pairs_of_rows, "line 2"),
    "width_of_copies": ("a.tsv", f"{COPIES}0\ta\n", copies, "line 2"),
    "class": ("a.tsv", f"{TABS}a\tugly\n", built_in, "line 2.*label 'ugly'"),
    "no_score": ("a.tsv", f"{TABS}a\thigh\n", scores, "line 2.*'high'"),
    "nan": ("a.tsv", f"{TABS}a\tnan\n", scores, "line 2.*finite"),
    "column": ("a.tsv", "text\tgold\n", built_in, "column of .*a.tsv 'label'"),
    "columns": ("a.csv", "text,text,label\n", own_table, "several columns"),
    "no_text": ("a.tsv", f"{TABS} \tgood\n", built_in, "line 2: .*a text"),
    "no_own_text": ("a.csv", "text,label\na,x\n,y\n", own_table, "line 3"),
    "no_label": ("a.csv", "text,label\na,x\nb,y\nc,\n", own_table, "line 4"),
    "quote": ("a.csv", 'text,label\n"a,x\n', own_table, "line 2"),
    "no_object": ("a.jsonl", '{"text": 1}\n[2]', own_table, "line 2.*object"),
    "no_json": ("a.jsonl", '{"text": 1}\n{', own_table, "line 2"),
    "list": ("a.json", '[{"text": [1], "label": 1}]', own_table, "object 1"),
    "scores": ("a.csv", numbered(lambda n: n % 30), own_table, "--regression"),
    "fractions": ("a.csv", numbered(lambda n: 0.5 + n % 2), own_table, "few"),
    "commas": ("a.csv", numbered(lambda n: f'"{n % 5},5"'), own_table, "few"),
    "ids": ("a.csv", numbered(lambda n: f"id{n}"), own_table, "40 different"),
    "one": ("a.csv", numbered(lambda n: "x"), own_table, "1 different"),
    "true_and_1": (
        "a.csv", numbered(lambda n: ("True", "1")[n % 2]), own_table, "spell"
    ),
    "half_a_pair": ("a.tsv", f"{TABS}a\t\n", pairs_of_rows, "line 2"),
    "no_query": ("a.jsonl", ranked(query=" "), candidates, "line 2"),
    "no_positive": ("a.jsonl", ranked(positive=None), candidates, "line 2"),
    "no_negative": ("a.jsonl", ranked(negatives=[]), candidates, "line 2"),
    "number": ("a.jsonl", ranked(negatives=[3]), candidates, "line 2"),
    "more": ("a.jsonl", ranked(negatives=["c", "d"]), candidates, "line 2"),
    "ids_twice": ("a.tsv", "_id\ttext\nq1\ta\nq1\tb\n", queries, "line 3"),
    "no_id": ("a.tsv", "_id\ttext\n\ta\n", queries, "line 2"),
    "empty_query": ("a.tsv", "_id\ttext\nq1\t \n", queries, "line 2"),
    "no_header": ("a.tsv", "key\tquestion\tnote\n", queries, "line 1"),
    "unknown_query": ("a.txt", "q1 0 d1 1\nq2 0 d1 1\n", judgements, "line 2"),
    "unknown_document": ("a.txt", "q1 0 d2 1\n", judgements, "line 1.*d2"),
    "twice": ("a.txt", "q1 0 d1 1\nq1 0 d1 0\n", judgements, "line 2.*another"),
    "no_relevance": ("a.txt", "q1 0 d1 many\n", judgements, "line 1.*many"),
    "no_texts_of_copies": ("a.tsv", "source_row\n", copies, "before 1 column"),
    "other_rows": ("a.tsv", f"{COPIES}3\t0\t1\ta\n", copies, "line 2.*below 3"),
    "before_rows": ("a.tsv", f"{COPIES}-1\t0\t1\ta\n", copies, "line 2"),
    "short_vector": ("a.txt", "a 1 1\nb 1\n", vectors, "line 2.*2 finite"),
    "nan_in_vector": ("a.txt", "a 1 1\nb 1 nan\n", vectors, "line 2"),
}  # fmt: skip


@pytest.mark.parametrize("row", FILES)
def test_a_row_that_would_change_a_number_is_named(row, tmp_path):
    name, content, read, said = FILES[row]
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=said) as raised:
        read(path)
    assert name in str(raised.value)


@pytest.mark.parametrize("text", [b"a", ["a", "b"]], ids=["binary", "lists"])
def test_a_cell_without_text_is_named(text, tmp_path):
    path = tmp_path / "a.parquet"
    rows = {"text": [text] * 9, "label": [0, 1, 0] * 3}
    pa.parquet.write_table(pa.table(rows), path)
    with pytest.raises(ValueError, match=r"a.parquet, row 1: .*a text"):
        own_table(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_a_table_is_not_read_as_lines_of_text(name, tmp_path):
    """Its labels would be read as the ends of its texts."""
    path = tmp_path / name
    path.write_text("text\tlabel\n\nfine\t1\ndull\t0\n")
    for read in (
        lambda: read_unlabeled([path], (), 1),
        lambda: list(corpus_texts([path])),
        lambda: require_parallel([path, path]),
    ):
        with pytest.raises(ValueError, match=f"{name} is a table"):
            read()


def test_parallel_files_of_different_lengths_are_refused(tmp_path):
    files = tmp_path / "a.en", tmp_path / "a.de"
    for number, path in enumerate(files):
        path.write_text("a\n" * (3 + number))
    for order in (files, files[::-1]):
        with pytest.raises(ValueError, match="different numbers of lines"):
            require_parallel(order)


@pytest.mark.parametrize("empty", ["", " ", "\u200b \u200b"])
def test_an_empty_side_of_a_pair_is_named(empty, tmp_path):
    files = tmp_path / "a.en", tmp_path / "a.de"
    files[0].write_text("a\nb\nc\n")
    files[1].write_text(f"a\n{empty}\nc\n")
    with pytest.raises(ValueError, match="a.de, line 2 has no text"):
        list(parallel_pairs(files))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (None, ["happy", "sad", "angry"]),
        (["b", "a", "c"], ["happy", "sad"]),
        (None, ["happy", "sad"]),
    ],
    ids=["more", "fewer", "other"],
)
def test_labels_that_are_not_the_teachers_are_listed(labels, classes, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(numbered(lambda n: "ab"[n % 2]))
    (tmp_path / "labels.json").write_text(json.dumps({"classes": classes}))
    with pytest.raises(ValueError, match="'happy', 'sad'.*--labels"):
        own_table(path, labels=labels, teacher=tmp_path)


def test_a_label_that_is_not_listed_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,y\n")
    with pytest.raises(ValueError, match="line 3: Unknown label 'y'"):
        own_table(path, labels=["x", "z"])
    dev = tmp_path / "dev.csv"
    dev.write_text("text,label\na,z\n")
    with pytest.raises(ValueError, match="dev.csv, line 2: Unknown label 'z'"):
        own_table(path, dev=dev)


TOKENS = {
    "width": ("a O\nb NN O\n", "line 2: expected 2 columns"),
    "one_column": ("a\n", "line 1: expected 2 columns"),
    "no_word": ("\tNN\tO\n", "line 1: no word"),
    "no_span": ("a NOUN\n", "B-PER or I-PER"),
    "tag": ("a O\n\nb B-DOG\n", "line 3: .* 'B-DOG'"),
}


@pytest.mark.parametrize("row", TOKENS)
def test_a_word_without_its_tag_is_named(row, tmp_path):
    content, said = TOKENS[row]
    folder = tmp_path / "conll"
    folder.mkdir()
    (folder / "train.txt").write_text(content)
    if row == "tag":
        (folder / "tags.txt").write_text("O\nB-PER\n")
    with pytest.raises(ValueError, match=f"train.txt.*{said}"):
        tasks.get_task("conll").load("train", tmp_path)


@pytest.mark.parametrize(
    ("sentence", "readings", "said"),
    [
        ("来了", "le5\nle5", "line 2: expected one character"),
        ("▁了▁解▁", "le5\nle5", "line 2: expected one character"),
        ("▁了解▁", "le5\nle5", "line 2: expected one character"),
        ("▁▁来", "le5\nle5", "line 2: expected one character"),
        ("▁了▁", "\nle5", "line 1: .*its reading"),
        ("▁了▁", "le5", "different numbers of lines"),
    ],
)
def test_a_polyphone_without_mark_or_reading_is_named(
    sentence, readings, said, tmp_path
):
    folder = tmp_path / "polyphone"
    folder.mkdir()
    (folder / "train.sent").write_text(f"▁了▁\n{sentence}\n")
    (folder / "train.lb").write_text(f"{readings}\n")
    with pytest.raises(ValueError, match=f"train.*{said}"):
        tasks.get_task("polyphone").for_data(tmp_path)


def test_a_passage_with_another_number_of_options_is_refused(tmp_path):
    passage = {
        "article": "a",
        "questions": ["b", "c"],
        "options": [["a", "b", "c", "d"], ["a", "b", "c"]],
        "answers": ["A", "B"],
    }
    path = tmp_path / "race_middle" / "train_middle.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(passage))
    with pytest.raises(ValueError, match=r"\[3, 4\] options"):
        tasks.get_task("race_middle").load("train", tmp_path)
    path.write_text(json.dumps({**passage, "answers": ["A", "AB"]}))
    with pytest.raises(ValueError, match="train_middle.jsonl, line 1"):
        tasks.get_task("race_middle").load("train", tmp_path)


@pytest.fixture(scope="module")
def word_pieces():
    return keras_hub.tokenizers.BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"],
        lowercase=True,
    )


QUESTIONS = data.Questions(["p"], ["q"], [("a", "b")])
CALLS = {
    "rows": (lambda: data.Examples((["a", "b"], ["c"])), "as many labels"),
    "labels": (lambda: data.Examples((["a"],), np.zeros(2)), "as many labels"),
    "label_is_text": (
        lambda: data.LabeledTable("a.csv", ("a",), "a"), "label and a text"
    ),
    "same_label": (
        lambda: data.LabeledTable(
            None, ("a",), "b", test="a.csv", labels=("1", "1.0")
        ).read("test"), "each label once",
    ),
    "words": (
        lambda: data.TokenExamples([("a", "b")], [np.array([1])]), "each word"
    ),
    "questions": (
        lambda: data.Questions(["p"], ["q", "q"], [("a", "b")]), "same length"
    ),
    "share": (lambda: data.Masking(share=1.0), "less than 1"),
    "span_share": (lambda: data.SpanMasking(share=1.1), "equal to 1"),
    "mask_share": (lambda: data.Masking(mask_share=0.95), "at most 1 together"),
    "share_of": (lambda: data.Masking(share_of="corpus"), "'row' or 'batch'"),
    "whole_words": (
        lambda: data.Masking(share_of="batch", whole_words=True), "whole_words"
    ),
    "words_of_byte_pairs": (
        lambda: data.Masker(
            data.Masking(whole_words=True), family_tokenizer("roberta")
        ), "word pieces",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CALLS)
def test_data_that_do_not_fit_are_refused(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\nx,1\n")
    call, said = CALLS[row]
    with pytest.raises(ValueError, match=said):
        call()


def test_a_sequence_without_room_for_text_is_refused(word_pieces, tmp_path):
    sentence = data.TokenExamples([("a",)], [np.array([1])])
    for call in (
        lambda: data.encode(data.Examples((["a"], ["b"])), word_pieces, 3),
        lambda: data.encode_tokens(sentence, word_pieces, 2),
        lambda: data.encode_questions(QUESTIONS, word_pieces, 3, 2),
        lambda: data.pack(["a"], word_pieces, 2, tmp_path),
    ):
        with pytest.raises(ValueError, match="leave room for text"):
            call()
    with pytest.raises(ValueError, match="2 options, the task 4"):
        data.encode_questions(QUESTIONS, word_pieces, 32, num_options=4)


def test_text_without_a_token_is_refused(
    word_pieces, sentence_pieces, tmp_path
):
    tokenizer = sentence_pieces
    with pytest.raises(ValueError, match="at least one token"):
        data.encode_sentences(["a", " "], tokenizer, 8, "de")
    with pytest.raises(ValueError, match="stride=5"):
        data.pack_stream(["a"], word_pieces, 4, tmp_path, stride=5)
    sides = [
        data.encode_sentences(texts, tokenizer, 8) for texts in ("aa", "a")
    ]
    with pytest.raises(ValueError, match="2 sources, 1 targets"):
        data.PairRows(*sides)
