"""Texts on disk: which are chosen, what is stored, what is opened again."""

import itertools
import json

import numpy as np
import pytest

from kdkit import data
from kdkit.data.examples import Examples
from kdkit.data.stored_texts import (
    choose_texts,
    read_hashes,
    store_texts,
    text_hash,
)
from kdkit.models import word_piece_tokenizer

LENGTH = 16
LINES = [
    "The plot is thin.", "", "the  plot is thin.", "a dull cast", "the music",
    " ", "the hero", "the pace is cold",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return word_piece_tokenizer(data.sentiment_vocabulary(), lowercase=True)


def stored(directory, tokenizer, lines=LINES, known=(), **part):
    return store_texts(
        lambda: iter(lines),
        lambda: choose_texts(lines, known),
        tokenizer,
        LENGTH,
        directory,
        **part,
    )


def test_empty_repeated_and_known_texts_are_left_out_and_counted():
    choice = choose_texts(LINES, known=["A dull  cast", "never read"])
    assert np.flatnonzero(choice.is_chosen).tolist() == [0, 4, 6, 7]
    assert choice.counts == {
        "texts": 6, "empty": 2, "repeated": 1, "left_out": 1
    }  # fmt: skip


@pytest.mark.parametrize("every", [0, 2, 3])
def test_held_out_texts_are_one_in_so_many_and_never_trained_on(every):
    choice = choose_texts(LINES)
    train = choice.part(every, held_out=False)
    held_out = choice.part(every, held_out=True)
    assert not (train & held_out).any()
    assert ((train | held_out) == choice.is_chosen).all()
    chosen = np.flatnonzero(choice.is_chosen)
    expected = chosen[::every] if every else []
    assert np.flatnonzero(held_out).tolist() == list(expected)


def test_stored_texts_are_those_of_encode(tmp_path, tokenizer):
    found = stored(tmp_path, tokenizer)
    texts = [LINES[number] for number in (0, 3, 4, 6, 7)]
    expected = data.encode(Examples((texts,)), tokenizer, LENGTH)
    assert isinstance(found.token_ids, np.memmap)
    rows = np.array([4, 0, 2])
    for name, values in expected.batch(rows, 9, None).items():
        np.testing.assert_array_equal(found.batch(rows, 9, None)[name], values)
    for one, other in zip(found.contents(), expected.contents(), strict=True):
        for array, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_texts_are_opened_without_reading_them_again(tmp_path, tokenizer):
    first = stored(tmp_path, tokenizer)

    def never():
        raise AssertionError("read again")

    again = store_texts(never, never, tokenizer, LENGTH, tmp_path)
    np.testing.assert_array_equal(again.token_ids, first.token_ids)
    assert again.counts == first.counts


@pytest.mark.parametrize("name", ["token_ids", "lengths", "hashes"])
def test_damaged_texts_are_stored_again(name, tmp_path, tokenizer):
    first = np.array(stored(tmp_path, tokenizer).token_ids)
    content = bytearray((tmp_path / name).read_bytes())
    content[0] ^= 1
    (tmp_path / name).write_bytes(content)
    assert read_hashes(tmp_path) is None
    np.testing.assert_array_equal(stored(tmp_path, tokenizer).token_ids, first)


def test_another_number_in_the_index_of_texts_is_not_read(tmp_path, tokenizer):
    stored(tmp_path, tokenizer)
    index = json.loads((tmp_path / "index.json").read_text())
    index["repeated"] += 1
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert read_hashes(tmp_path) is None


def test_hashes_are_of_the_stored_texts_whatever_their_case(
    tmp_path, tokenizer
):
    stored(tmp_path, tokenizer, known=["the hero"])
    hashes = set(read_hashes(tmp_path).tolist())
    assert text_hash("THE music") in hashes
    assert text_hash("the hero") not in hashes
    assert len(hashes) == 4


def test_texts_are_read_line_by_line(tmp_path, tokenizer):
    """At most a step of lines is read before its tokens are written."""
    waiting = []
    lines = [f"the hero is {'very ' * (number % 7)}cold {number}"
             for number in range(3000)]  # fmt: skip

    def read():
        for number in itertools.count():
            if number == len(lines):
                return
            sizes = [
                path.stat().st_size for path in tmp_path.glob("*/token_ids")
            ]
            waiting.append(bool(sizes and sizes[0]))
            yield lines[number]

    store_texts(read, lambda: choose_texts(lines), tokenizer, LENGTH, tmp_path)
    assert len(waiting) == 3000
    assert waiting[-1]  # some tokens were on disk before the last line
