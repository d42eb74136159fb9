"""The checks for leaked rows and texts, on data with exactly that problem."""

import numpy as np
import pytest

from kdkit import doctor
from kdkit.data import Examples, Questions, TokenExamples
from kdkit.doctor import OK, RUINS, WARNING

TRAIN = [(f"row number {number}",) for number in range(100)]
DEV = [(f"other row {number}",) for number in range(50)]


@pytest.mark.parametrize(
    ("inside", "outcome"), [(0, OK), (1, WARNING), (20, RUINS)]
)
def test_rows_of_dev_that_are_trained_on_are_counted(inside, outcome):
    finding = doctor.rows_kept_apart(TRAIN + DEV[:inside], {"dev": DEV})
    assert finding.outcome == outcome
    assert f"{inside} of 50 in dev" in finding.found
    if inside:
        assert "other row 0" in finding.found


@pytest.mark.parametrize(
    ("trained", "held_out", "inside"),
    [
        (("a film .",), ("a film",), 1),
        (("“it's” a (fine) film!",), ("it's a fine film",), 1),
        (("its a fine film",), ("it's a fine film",), 0),
        ((":)",), (";(",), 0),
        (("one text", "other text"), ("other text?", "one text"), 1),
        (("no", "rain", "."), ("no", "rain"), 1),
        (("rain", "no"), ("no", "rain"), 0),
        (("a b", "c d", "e f"), ("a b", "e f", "c d"), 0),
    ],
)
def test_rows_are_alike_without_punctuation_and_pairs_in_any_order(
    trained, held_out, inside
):
    finding = doctor.rows_kept_apart([trained], {"dev": [held_out]})
    assert f"{inside} of 1 in dev" in finding.found


def kept_apart(train, dev):
    """The finding of two lists of texts, with labels or without."""
    train, dev = Examples(*train), Examples(*dev)
    return doctor.rows_kept_apart(
        doctor.row_texts(train),
        {"dev": doctor.row_texts(dev)},
        doctor.row_labels(train),
        {"dev": doctor.row_labels(dev)},
    )


def test_rows_of_other_punctuation_and_other_labels_are_two_rows():
    """Such as smileys."""
    glad = [f"Item {number} :)" for number in range(20)]
    sad = [f"item {number} :(" for number in range(20)]
    ones = np.ones(20, "int32")
    finding = kept_apart(((glad,), ones), ((sad,), 0 * ones))
    assert finding.outcome == OK
    assert "0 of 20 in dev" in finding.found
    finding = kept_apart(((glad,), ones), ((sad,), ones))
    assert finding.outcome == RUINS
    assert "20 of 20 in dev" in finding.found
    finding = kept_apart(((sad,), ones), ((sad,), 0 * ones))
    assert finding.outcome == RUINS
    pairs = ((sad, glad), ones), ((glad, sad), 0 * ones)
    assert kept_apart(*pairs).outcome == RUINS


def test_rows_are_told_by_all_their_texts_without_capitals():
    pairs = Examples((["A  b", "c"], ["D", "e"]))
    assert doctor.row_texts(pairs) == [("a b", "d"), ("c", "e")]
    question = Questions(["P"], ["q ?"], [("X", "y")])
    assert doctor.row_texts(question) == [("p", "q ?", "x", "y")]
    tokens = TokenExamples([("No", "rain")])
    assert doctor.row_texts(tokens) == [("no", "rain")]


def apart(train, held_out, **settings):
    return doctor.texts_kept_apart(
        [(text,) for text in train],
        [(text,) for text in held_out],
        100,
        ("teacher", "student"),
        **settings,
    )


def test_held_out_lines_in_the_training_text_are_counted():
    """The validation file was one of the training files too."""
    text = [f"line {number} of some running text" for number in range(20)]
    fine = apart(text[5:], [*text[:5], "Chapter 1", "= ="])
    assert fine.outcome == OK
    assert "holds out 5 texts" in fine.found
    assert apart([*text[5:], "Chapter 1"], ["chapter 1"]).outcome == OK
    leaked = apart(text, text[:5])
    assert leaked.outcome == RUINS
    assert "5 are also among the 20" in leaked.found
    assert apart(text, text[:5], worst_outcome=WARNING).outcome == WARNING


DEV_TEXTS = [
    (f"row {number} of dev is long enough here",) for number in range(50)
]


@pytest.mark.parametrize(
    ("inside", "outcome"), [(0, OK), (1, WARNING), (50, WARNING)]
)
def test_rows_of_dev_in_the_general_text_are_counted(inside, outcome):
    """They are no labelled rows, so that they never ruin a run."""
    text = [f"This is line {number} of general text" for number in range(9)]
    text += [
        f"Before it. ROW  {n} of dev is long enough here" for n in range(inside)
    ]
    finding = doctor.rows_in_text({"dev": DEV_TEXTS}, text, 100, "text")
    assert finding.outcome == outcome
    assert f"{9 + inside} texts: {inside} of 50 rows in dev" in finding.found
    assert ("row 0 of dev" in finding.found) == bool(inside)


def test_rows_stand_in_text_by_all_their_long_texts():
    pairs = [
        ("the first one of a pair", "the second one of a pair"),
        ("the first one of a pair", "short"),
        ("short", "shorter"),
    ]
    tokens = [("words", "of", "a", "tagged", "text")]
    text = ["The first one of a pair", "short", "words of a tagged text"]
    text.append("the second one of a pair within a longer line")
    finding = doctor.rows_in_text(
        {"dev": pairs, "test": tokens}, text, 2, "text"
    )
    assert "first 2 texts: 1 of 3 rows in dev, 0 of 1 rows in test" in (
        finding.found
    )
    finding = doctor.rows_in_text(
        {"dev": pairs, "test": tokens}, text, 9, "text"
    )
    assert "4 texts: 1 of 3 rows in dev, 1 of 1 rows in test" in finding.found
