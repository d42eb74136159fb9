"""Readers of text and JSON: errors that name the line."""

import pytest

from kdkit.data.augmented import read_copies
from kdkit.data.tables import label_parser
from kdkit.data.word_vectors import read_word_vectors
from kdkit.errors import UsageError, printable
from kdkit.io.reading import (
    json_lines,
    numbered_lines,
    read_json,
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"one\ntwo\0\n", "line 2: expected text in UTF-8"),
        (b"one\nt\xffo\n", "line 2: 'utf-8' codec .* 0xff in position 1"),
    ],
)
def test_what_is_no_text_is_told_with_its_line(content, problem, tmp_path):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        list(numbered_lines(tmp_path / "text"))


@pytest.mark.parametrize("text", ['{"a": ', "[1]"], ids=["cut off", "a list"])
def test_json_that_cannot_be_used_names_its_file(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"a.json .* expected"):
        read_json(tmp_path / "a.json", "a config")


def test_lines_of_a_log_that_are_no_objects_are_passed_over(tmp_path):
    (tmp_path / "log").write_bytes(b'{"a": 1}\n\n\0\0{\n[]\n\xff\n{"b": 2}')
    assert list(json_lines(tmp_path / "log")) == [
        (1, {"a": 1}), (3, None), (4, None), (5, None), (6, {"b": 2}),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["1e999", "nan", "-inf", "1e39"])
def test_scores_that_32_bits_do_not_hold_are_refused(text):
    with pytest.raises(UsageError, match="a finite 32-bit number"):
        label_parser(None)(text)


@pytest.mark.parametrize(
    "text", ["1000000 10000000\na 1 2\n", "a 1e999 1\n", "a nan 1\n", "a x 1\n"]
)
def test_word_vectors_take_no_memory_for_what_is_not_there(text, tmp_path):
    (tmp_path / "glove.txt").write_text(text)
    with pytest.raises(UsageError, match="glove.txt, line [12]: "):
        read_word_vectors(tmp_path / "glove.txt", ["a"] + list("bcdefgh"))


@pytest.mark.parametrize("number", ["9" * 5000, str(2**40), "-1", "²"])
def test_rows_of_copies_beyond_the_task_are_refused(number, tmp_path):
    (tmp_path / "copies.tsv").write_text(f"source_row\ttext\n{number}\ta\n")
    with pytest.raises(UsageError, match="copies.tsv, line 2: "):
        list(read_copies(tmp_path / "copies.tsv", 1, 10))


def test_what_is_printed_of_strangers_does_not_move_the_cursor():
    assert printable("\x1b]0;owned\x07$\\frac{") == (
        "\\x1b]0;owned\\x07$\\frac{"
    )
    assert printable("größer\n\tals") == "größer\n\tals"
