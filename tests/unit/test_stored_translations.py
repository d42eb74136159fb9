"""Parallel files: which texts are used, and which source each one has."""

import itertools

import numpy as np
import pytest

from kdkit import data, models
from kdkit.data.stored_texts import read_hashes, text_hash
from kdkit.data.stored_translations import (
    choose_translations,
    store_translations,
)
from kdkit.models.vocabularies import SPECIAL_PIECES

LINES = [
    ("the plot", "die Handlung", "l'intrigue"),
    ("", "die Musik", "la musique"),
    ("the hero", "", "le héros"),
    ("The  plot", "das Geschehen", "l'intrigue"),
    ("the pace", "das Tempo", "le rythme"),
    ("the cast", "die Besetzung", ""),
]


def files_of(folder, columns):
    paths = []
    for number, lines in enumerate(columns):
        paths.append(folder / f"text.{number}")
        paths[-1].write_text("".join(f"{line}\n" for line in lines))
    return tuple(map(str, paths))


def test_lines_of_all_files_belong_together(tmp_path):
    files = files_of(tmp_path, zip(*LINES, strict=True))
    assert [*data.ParallelLines(files).lines()] == LINES
    assert data.ParallelLines(files).check() == len(LINES)


@pytest.mark.parametrize("end", ["", "\n", "\n \n"])
def test_empty_lines_at_the_end_do_not_count(end, tmp_path):
    files = files_of(tmp_path, (["a", "b"], ["c", ""]))
    with open(files[0], "a", encoding="utf-8") as file:
        file.write(end)
    assert [*data.ParallelLines(files).lines()] == [("a", "c"), ("b", "")]


def test_pairs_are_chosen_once_and_have_their_source():
    choice = choose_translations(LINES)
    assert choice.is_chosen.tolist() == [
        [True, True, True],
        [False, False, False],
        [True, False, True],
        [False, True, False],  # the same source, one new translation
        [True, True, True],
        [True, True, False],
    ]
    assert choice.sources.tolist() == [0, -1, 1, 0, 2, 3]
    assert choice.counts == {
        "texts": 13, "empty": 5, "repeated": 2, "left_out": 0
    }  # fmt: skip


def test_known_texts_are_left_out_with_their_translations():
    choice = choose_translations(LINES, ["THE HERO", "das Tempo"])
    assert choice.is_chosen[2].tolist() == [False, False, False]
    assert choice.is_chosen[4].tolist() == [True, False, True]
    assert choice.counts["left_out"] == 3


def test_all_texts_of_a_source_are_on_the_same_side():
    choice = choose_translations(LINES)
    held_out = choice.is_part(2, held_out=True)
    assert held_out.any(axis=1).tolist() == [
        True, False, False, True, True, False
    ]  # fmt: skip
    train = choice.is_part(2, held_out=False)
    np.testing.assert_array_equal(held_out | train, choice.is_chosen)
    assert not (held_out & train).any()


@pytest.fixture
def stored(tmp_path):
    words = sorted({word for text in itertools.chain(*LINES) for word in text})
    pieces = [*SPECIAL_PIECES, *words]
    pieces += [f"##{word}" for word in words]
    own = models.word_piece_tokenizer(pieces, lowercase=True)
    teacher = models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    calls = []

    def store(**options):
        def read():
            calls.append(1)
            return iter(LINES)

        choice = choose_translations(LINES)
        place = tmp_path / "texts"
        made = store_translations(
            read, choice, own, teacher, 16, place, **options
        )
        return made, calls, place, teacher

    return store


def test_rows_are_stored_with_the_source_of_their_line(stored):
    texts, calls, place, teacher = stored()
    expected = [
        (language, line[0])
        for line, chosen in zip(
            LINES, choose_translations(LINES).is_chosen, strict=True
        )
        for language, is_one in enumerate(chosen)
        if is_one
    ]
    assert len(texts) == len(expected) == 11
    found = [[*ids] for ids, _ in texts.sources.contents()]
    for row, (language, source) in enumerate(expected):
        assert texts.languages[row] == language
        ids = [*map(int, teacher(source.lower()))]
        ids = [teacher.start_token_id, *ids, teacher.end_token_id]
        assert found[texts.source_rows[row]] == ids
    hashes = set(read_hashes(place).tolist())
    assert {text_hash("die Handlung"), text_hash("le rythme")} <= hashes
    assert text_hash("la musique") not in hashes
    before = len(calls)
    again, *_ = stored()
    assert len(calls) == before
    np.testing.assert_array_equal(again.token_ids, texts.token_ids)
    np.testing.assert_array_equal(again.source_rows, texts.source_rows)


def test_held_out_rows_have_sources_of_their_own(stored):
    texts, *_ = stored(every=2, held_out=True)
    assert texts.source_rows.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert texts.languages.tolist() == [0, 1, 2, 1, 0, 1, 2]
    assert len(texts.sources) == 2
