"""Texts and translations on disk: what is chosen, stored and opened again.

Goes with kdkit.data.selection and stored_texts.
"""

import itertools

import numpy as np
import pytest

from kdkit import data, models
from kdkit.data.selection import choose, take, text_hash
from kdkit.data.stored_texts import (
    choose_translations,
    read_hashes,
    store_texts,
    store_translations,
)
from kdkit.data.texts import parallel_rows

LENGTH = 16
LINES = [
    "The plot is thin.", "", "the  plot is thin.", "a dull cast", "the music",
    " ", "the hero", "the pace is cold",
]  # fmt: skip
TRANSLATIONS = [
    ("the plot", "die Handlung", "l'intrigue"),
    ("", "die Musik", "la musique"),
    ("the hero", "", "le héros"),
    ("The  plot", "das Geschehen", "l'intrigue"),  # one new translation
    ("the pace", "das Tempo", "le rythme"),
    ("the cast", "die Besetzung", ""),
]
CHOSEN = np.array(
    [[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 0]], "bool"
)


@pytest.fixture(scope="module")
def tokenizer():
    vocabulary = data.sentiment_vocabulary()
    return models.word_piece_tokenizer(vocabulary, lowercase=True)


def choose_lines(known=(), every=0):
    return choose(((line,) for line in LINES), known, every)


def store(directory, tokenizer, known=()):
    def texts():
        choice = choose_lines(known)
        return take(LINES, choice.part(False)[0]), choice.counts

    return store_texts(texts, tokenizer, LENGTH, directory)


def test_empty_repeated_and_known_texts_are_left_out_and_counted():
    choice = choose_lines(known=["A dull  cast", "never read"])
    assert choice.rows.tolist() == [0, 4, 6, 7]
    counts = {"rows": 6, "empty": 2, "repeated": 1, "dropped": 1}
    assert choice.counts == counts
    assert choose([]).part(False)[0].tolist() == []


@pytest.mark.parametrize("every", [0, 2, 3])
def test_held_out_texts_are_one_in_so_many_and_never_trained_on(every):
    choice = choose_lines(every=every)
    train, held_out = (choice.part(one)[0].tolist() for one in (False, True))
    rows = choose_lines().rows.tolist()
    assert sorted(train + held_out) == rows
    assert held_out == (rows[::every] if every else [])


def test_a_known_first_text_leaves_out_its_row_alone():
    rows = [("a", "b"), ("b", "c"), ("d", "a"), ("A", "b"), ("b", "e")]
    found = choose(rows, known=["e"], known_first=["a"])
    assert found.rows.tolist() == [1, 2]
    assert choose(rows, every=2).part(True)[0].tolist() == [0, 2]
    assert choose(rows, every=2).part(False)[1].tolist() == [1, 1]


def test_stored_texts_are_those_of_encode(tmp_path, tokenizer):
    found, counts = store(tmp_path, tokenizer)
    texts = [LINES[number] for number in (0, 3, 4, 6, 7)]
    expected = data.encode(data.Examples((texts,)), tokenizer, LENGTH)
    assert isinstance(found.token_ids, np.memmap)
    rows = np.array([4, 0, 2])
    for name, values in expected.batch(rows, 9, None).items():
        np.testing.assert_array_equal(found.batch(rows, 9, None)[name], values)
    for one, other in zip(found.contents(), expected.contents(), strict=True):
        np.testing.assert_array_equal(one, other)

    def never():
        raise AssertionError("read again")

    again, same = store_texts(never, tokenizer, LENGTH, tmp_path)
    np.testing.assert_array_equal(again.token_ids, found.token_ids)
    assert same == counts


def test_hashes_are_of_the_stored_texts_whatever_their_case(
    tmp_path, tokenizer
):
    store(tmp_path, tokenizer, known=["the hero"])
    hashes = set(read_hashes(tmp_path).tolist())
    assert text_hash("THE music") in hashes
    assert text_hash("the hero") not in hashes
    assert len(hashes) == 4


def test_texts_are_read_line_by_line(tmp_path, tokenizer):
    """Some tokens are on disk before the last line is read."""
    lines = [f"the hero is {'very ' * (n % 7)}cold {n}" for n in range(3000)]
    sizes = []

    def read():
        for line in lines:
            files = tmp_path.glob("*/texts/token_ids")
            sizes.append(sum(file.stat().st_size for file in files))
            yield line

    store_texts(lambda: (read(), {}), tokenizer, LENGTH, tmp_path / "texts")
    assert len(sizes) == len(lines)
    assert sizes[-1] > 0


def write_lines(folder, columns):
    files = [folder / f"text.{number}" for number in range(len(columns))]
    for file, lines in zip(files, columns, strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    return tuple(map(str, files))


@pytest.mark.parametrize("end", ["", "\n", "\n \n"])
def test_lines_of_all_files_belong_together(end, tmp_path):
    """Empty ones at the end do not count."""
    files = write_lines(tmp_path, list(zip(*TRANSLATIONS, strict=True)))
    with open(files[0], "a", encoding="utf-8") as file:
        file.write(end)
    assert [texts for _, texts in parallel_rows(files)] == TRANSLATIONS


def test_pairs_are_chosen_once_and_have_their_source():
    choice = choose_translations(TRANSLATIONS)
    np.testing.assert_array_equal(choice.rows, np.flatnonzero(CHOSEN))
    assert choice.groups.tolist() == [0, 0, 0, 1, 1, 0, 2, 2, 2, 3, 3]
    counts = {"rows": 13, "empty": 5, "repeated": 2, "dropped": 0}
    assert choice.counts == counts
    known = choose_translations(TRANSLATIONS, ["THE HERO", "das Tempo"])
    left_out = {*choice.rows.tolist()} - {*known.rows.tolist()}
    assert left_out == {6, 8, 13}
    assert known.counts["dropped"] == 3


def test_all_texts_of_a_source_are_on_the_same_side():
    choice = choose_translations(TRANSLATIONS, every=2)
    train, held_out = (choice.part(one)[0] for one in (False, True))
    assert {*(held_out // 3).tolist()} == {0, 3, 4}
    rows = np.sort(np.concatenate([train, held_out]))
    np.testing.assert_array_equal(rows, np.flatnonzero(CHOSEN))


@pytest.fixture
def stored(tmp_path, tokenizer):
    """A function that stores the translations, and notes when it reads."""
    letters = sorted(set(itertools.chain(*itertools.chain(*TRANSLATIONS))))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters)]
    own = models.word_piece_tokenizer(pieces, lowercase=True)
    calls = []

    def read():
        calls.append(1)
        return iter(TRANSLATIONS)

    def store(every=0):
        choice = choose_translations(TRANSLATIONS, every=every)
        part, place = choice.part(held_out=bool(every)), tmp_path / "texts"
        return store_translations(read, part, own, tokenizer, LENGTH, place, 3)

    store.calls = calls
    return store


def test_rows_are_stored_with_the_source_of_their_line(
    stored, tokenizer, tmp_path
):
    texts = stored()
    lines, languages = np.nonzero(CHOSEN)
    assert texts.languages.tolist() == languages.tolist()
    contents = [[*ids] for ids, _ in texts.sources.contents()]
    for row, line in enumerate(lines):
        ids = map(int, tokenizer(TRANSLATIONS[line][0].lower()))
        ids = [tokenizer.start_token_id, *ids, tokenizer.end_token_id]
        assert contents[texts.source_rows[row]] == ids
    hashes = set(read_hashes(tmp_path / "texts").tolist())
    assert {text_hash("die Handlung"), text_hash("le rythme")} <= hashes
    assert text_hash("la musique") not in hashes
    before = len(stored.calls)
    again = stored()
    assert len(stored.calls) == before
    np.testing.assert_array_equal(again.token_ids, texts.token_ids)
    np.testing.assert_array_equal(again.source_rows, texts.source_rows)


def test_held_out_rows_have_sources_of_their_own(stored):
    texts = stored(every=2)
    assert texts.source_rows.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert texts.languages.tolist() == [0, 1, 2, 1, 0, 1, 2]
    assert len(texts.sources) == 2
