"""Words: their places, which are replaceable, the text around them."""

import pytest

from kdkit.augmentation.augmenter import (
    is_replaceable,
    replace_words,
    split_words,
)


def test_words_know_where_they_stand():
    text = "It's  a 2nd-rate film!"
    for word in split_words(text):
        assert text[word.start : word.end] == word.text
    assert [word.text for word in split_words(text)] == [
        "It", "'", "s", "a", "2nd", "-", "rate", "film", "!"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("film", True),
        ("Film", True),
        ("The", False),
        ("not", False),
        ("2001", False),
        ("2nd", False),
        (",", False),
        ("s", False),
        ("naïve", True),
    ],
)
def test_only_words_of_letters_that_say_something_are_replaced(word, expected):
    assert is_replaceable(word) == expected


def test_all_but_the_replaced_words_stays_as_it_was():
    text = "a  dull\tfilm , though ."
    words = split_words(text)
    assert replace_words(text, words, {}) == text
    assert replace_words(text, words, {2: "play", 1: "fine"}) == (
        "a  fine\tplay , though ."
    )
