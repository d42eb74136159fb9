"""Augmented texts: which words, how many, the same for a seed."""

import collections
import functools
import re

import keras_hub
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdkit.augmentation import Augmenter

WORDS = ["film", "play", "show", "fine", "dull", "warm"]
PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS,
    "the", "grip", "##ping", ",",
    *("it", "'", "s", "a", "2nd", "-", "rate", "not", "of", "2001", "naïve"),
]  # fmt: skip


@functools.cache
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)


class FakeModel:
    """Best words by a rule; notes what it was asked."""

    def __init__(self, rule, most_pieces):
        self.rule = rule
        self.most_pieces = most_pieces
        self.asked = []

    def __call__(self, queries):
        self.asked += queries
        best = [[*map(PIECES.index, self.rule(query))] for query in queries]
        return np.array(best, "int32").reshape(len(queries), 2)


def near(words):
    return {word: ["warm", "dull"] for word in words if word == "gripping"}


def play_or_show(query):
    return ["play", "show"]


def make(rule=play_or_show, most_pieces=30, stop_words=("the",), **settings):
    model = FakeModel(rule, most_pieces)
    settings["stop_words"] = stop_words
    augmenter = Augmenter(model, near, tokenizer(), **settings)
    return augmenter, model


both_ways = pytest.mark.parametrize("sequential", [False, True])


@both_ways
def test_replacements_are_as_frequent_as_the_algorithm_says(sequential):
    augmenter, _ = make(num_copies=1, probability=0.4, sequential=sequential)
    texts = 4000 * ["the gripping film"]
    counts = collections.Counter(
        copies[0] if copies else "the gripping film"
        for copies in augmenter(texts)
    )
    for first, share in (("gripping", 0.6), ("warm", 0.2), ("dull", 0.2)):
        for last, other in (("film", 0.6), ("play", 0.2), ("show", 0.2)):
            expected = share * other
            deviation = np.sqrt(expected * (1 - expected) / len(texts))
            found = counts[f"the {first} {last}"] / len(texts)
            assert abs(found - expected) < 4 * deviation


def test_only_words_of_letters_that_say_something_are_replaced():
    """By scikit-learn's stop words; all else of the text stays."""
    augmenter, _ = make(num_copies=9, probability=1.0, stop_words=None)
    text = "It's  a 2nd-rate\tFilm , not The xyz of 2001 naïve!"
    (copies,) = augmenter([text])
    assert {re.sub("play|show", "*", copy) for copy in copies} == {
        "It's  a 2nd-*\t* , not The xyz of 2001 *!"
    }


def test_model_is_asked_once_for_all_copies():
    augmenter, model = make(num_copies=20)
    augmenter(["the gripping film , film"])
    assert [query.position for query in model.asked] == [3, 5]
    for query in model.asked:
        ids = [PIECES[number] for number in query.token_ids]
        assert ids == ["the", "grip", "##ping", "film", ",", "film"]


def test_in_turn_predictions_see_what_was_replaced_before():
    # A play is followed by what is warm, anything else by what is dull.
    def rule(query):
        if query.position == 0:
            return ["play", "show"]
        before = PIECES[query.token_ids[query.position - 1]]
        return ["warm", "warm"] if before == "play" else ["dull", "dull"]

    for sequential, other in ((True, "play warm"), (False, "play dull")):
        augmenter, _ = make(
            rule, num_copies=50, probability=1.0, sequential=sequential
        )
        (copies,) = augmenter(["film fine"])
        assert set(copies) == {other, "show dull"}


def test_in_turn_words_of_other_lengths_move_what_follows():
    augmenter, model = make(num_copies=1, probability=1.0, sequential=True)
    augmenter(["gripping film"])
    (query,) = model.asked
    assert query.position == 1  # "gripping" was two pieces, "warm" is one
    assert len(query.token_ids) == 2


@both_ways
def test_copies_depend_on_seed_and_row_alone(sequential):
    texts = ["the gripping film", "dull play , fine show", "film"]
    augmenter, _ = make(num_copies=6, sequential=sequential)
    whole = augmenter(texts, first_row=7)
    one_by_one = [
        augmenter([text], first_row=7 + number)[0]
        for number, text in enumerate(texts)
    ]
    assert whole == one_by_one
    assert augmenter(texts, first_row=8) != whole
    assert augmenter(texts, first_row=7, column=1) != whole


@given(
    words=st.lists(
        st.sampled_from([*WORDS, "the", "gripping", ",", "xyz"]), min_size=1
    ),
    probability=st.floats(0.01, 1.0),
    num_copies=st.integers(1, 5),
)
def test_copies_differ_where_words_may_be_replaced_alone(
    words, probability, num_copies
):
    augmenter, _ = make(num_copies=num_copies, probability=probability)
    text = " ".join(words)
    (copies,) = augmenter([text])
    assert len(copies) <= num_copies
    assert len({text, *copies}) == 1 + len(copies)
    fixed = {word: [word] for word in ("the", ",", "xyz")}
    fixed["gripping"] = ["gripping", "warm", "dull"]
    for copy in copies:
        for before, after in zip(words, copy.split(" "), strict=True):
            assert after in fixed.get(before, [before, "play", "show"])


def test_copies_are_no_repetitions_of_each_other_or_the_text():
    augmenter, _ = make(num_copies=60)
    assert [*map(sorted, augmenter(["film , the", "the , the", ""]))] == [
        ["play , the", "show , the"], [], []
    ]  # fmt: skip
    assert augmenter([]) == []


@both_ways
def test_tail_beyond_the_model_is_left_alone(sequential):
    augmenter, _ = make(
        most_pieces=3, probability=1.0, num_copies=5, sequential=sequential
    )
    (copies,) = augmenter(["film , film film gripping"])
    for copy in copies:
        assert copy.endswith(" film gripping")
        assert not copy.startswith("film")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("probability", 1.5), ("probability", -0.1), ("num_copies", 0)],
)
def test_impossible_settings_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"{setting}={value}"):
        make(**{setting: value})
