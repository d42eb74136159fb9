"""The doctor's checks of rows, texts and space: one problem at a time."""

import dataclasses
import shutil
import types

import numpy as np
import psutil
import pytest
from kit import encoders
from kit.helpers import bert, large_except
from kit.tasks import WORDS
from patients import tokenizer

from kdkit import data, doctor
from kdkit.data import Examples, Questions, TokenExamples
from kdkit.doctor import NOTE, OK, RUINS, WARNING
from kdkit.models.architectures import architecture
from kdkit.tasks import MultiLabel, Tagging, get_task

TRAIN = [(f"row number {number}",) for number in range(100)]
DEV = [(f"other row {number}",) for number in range(50)]
CHINESE = [("今天天气很好我们去公园玩",), ("iphone这部电影非常无聊 没有意思",)]
FRENCH = [(f"une phrase {number + 1000}",) for number in range(50)]
UNRELATED = "0 % of their source rows' words"


@pytest.mark.parametrize(
    ("copies", "train", "outcomes", "said"),
    [
        ([(n, ("row count",)) for n in range(100)], TRAIN, (OK, OK), ""),
        # Of a file that was made from other training data.
        ([*enumerate(DEV)], FRENCH, (WARNING, RUINS), UNRELATED),
        (
            [(0, TRAIN[0]), (0, DEV[0]), (1, TRAIN[1])],
            TRAIN,
            (WARNING, OK),
            "1 of 3 copies (33.3 %)",
        ),
        # Texts without blanks are compared by their characters.
        ([(0, ("昨天天气不错我们去公园玩",))], CHINESE, (OK, OK), ""),
        ([(1, ("iphone这部电影非常有趣 没有意思",))], CHINESE, (OK, OK), ""),
        ([(1, CHINESE[0])], CHINESE, (OK, RUINS), UNRELATED),
    ],
)
def test_augmented_copies(copies, train, outcomes, said):
    findings = doctor.augmented_copies(copies, train, set(DEV))
    assert tuple(one.outcome for one in findings) == outcomes
    assert said in " ".join(one.found for one in findings)


@pytest.mark.parametrize(
    ("inside", "outcome"), [(0, OK), (1, WARNING), (20, RUINS)]
)
def test_rows_of_dev_that_are_trained_on_are_counted(inside, outcome):
    finding = doctor.rows_kept_apart(TRAIN + DEV[:inside], {"dev": DEV})
    assert finding.outcome == outcome
    assert f"{inside} of 50 in dev" in finding.found
    assert ("other row 0" in finding.found) == bool(inside)


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


GLAD = [f"Item {number} :)" for number in range(20)]
SAD = [f"item {number} :(" for number in range(20)]
ONES = np.ones(20, "int32")


@pytest.mark.parametrize(
    ("train", "dev", "outcome"),
    [
        # Other punctuation, such as smileys, and another label: another row.
        (((GLAD,), ONES), ((SAD,), 0 * ONES), OK),
        (((GLAD,), ONES), ((SAD,), ONES), RUINS),
        (((SAD,), ONES), ((SAD,), 0 * ONES), RUINS),
        (((SAD, GLAD), ONES), ((GLAD, SAD), 0 * ONES), RUINS),
    ],
)
def test_labels_tell_rows_of_other_punctuation_apart(train, dev, outcome):
    train, dev = Examples(*train), Examples(*dev)
    finding = doctor.rows_kept_apart(
        doctor.row_texts(train),
        {"dev": doctor.row_texts(dev)},
        doctor.row_labels(train),
        {"dev": doctor.row_labels(dev)},
    )
    assert finding.outcome == outcome


def test_rows_are_told_by_all_their_texts_without_capitals():
    pairs = Examples((["A  b", "c"], ["D", "e"]))
    assert doctor.row_texts(pairs) == [("a b", "d"), ("c", "e")]
    question = Questions(["P"], ["q ?"], [("X", "y")])
    assert doctor.row_texts(question) == [("p", "q ?", "x", "y")]
    tokens = TokenExamples([("No", "rain")])
    assert doctor.row_texts(tokens) == [("no", "rain")]


LINES = [f"line {number} of some running text" for number in range(20)]


@pytest.mark.parametrize(
    ("train", "held_out", "outcome", "said"),
    [
        (
            LINES[5:],
            [*LINES[:5], "Chapter 1", "= ="],
            OK,
            "holds out 5 texts",
        ),
        ([*LINES[5:], "Chapter 1"], ["chapter 1"], OK, ""),
        (LINES, LINES[:5], RUINS, "5 are also among the 20"),
    ],
)
def test_held_out_lines_in_the_training_text_are_counted(
    train, held_out, outcome, said
):
    sides = [[(text,) for text in side] for side in (train, held_out)]
    roles = ("teacher", "student")
    finding = doctor.texts_kept_apart(*sides, 100, roles)
    assert finding.outcome == outcome
    assert said in finding.found
    if outcome == RUINS:
        finding = doctor.texts_kept_apart(
            *sides, 100, roles, worst_outcome=WARNING
        )
        assert finding.outcome == WARNING


@pytest.mark.parametrize(
    ("inside", "outcome"), [(0, OK), (1, WARNING), (50, WARNING)]
)
def test_rows_of_dev_in_the_general_text_are_counted(inside, outcome):
    """They are no labelled rows, so that they never ruin a run."""
    dev = [(f"row {n} of dev is long enough here",) for n in range(50)]
    text = [f"This is line {number} of general text" for number in range(9)]
    text += [
        f"Before it. ROW  {n} of dev is long enough here" for n in range(inside)
    ]
    finding = doctor.rows_in_text({"dev": dev}, text, 100, "text")
    assert finding.outcome == outcome
    assert f"{9 + inside} texts: {inside} of 50 rows in dev" in finding.found


@pytest.mark.parametrize(("limit", "tagged"), [(2, 0), (9, 1)])
def test_rows_are_in_text_by_all_their_long_texts(limit, tagged):
    pairs = [
        ("the first one of a pair", "the second one of a pair"),
        ("the first one of a pair", "short"),
        ("short", "shorter"),
    ]
    tokens = [("words", "of", "a", "tagged", "text")]
    text = ["The first one of a pair", "short", "words of a tagged text"]
    text.append("the second one of a pair within a longer line")
    finding = doctor.rows_in_text(
        {"dev": pairs, "test": tokens}, text, limit, "text"
    )
    counts = f"texts: 1 of 3 rows in dev, {tagged} of 1 rows in test"
    assert counts in finding.found


TEXTS = [f"this is the text of row {number}" for number in range(200)]
LABELS = [number % 2 for number in range(200)]


def repeats(texts, labels):
    """The finding for a split of sentences and a dev of other texts."""
    rows = Examples((texts,), None if labels is None else np.array(labels))
    dev = Examples(([f"dev: {text}" for text in TEXTS],))
    splits = {"train": rows, "dev": dev}
    return doctor.repeated_rows(
        {name: doctor.row_texts(some) for name, some in splits.items()},
        {name: doctor.row_labels(some) for name, some in splits.items()},
    )


@pytest.mark.parametrize(
    ("again", "outcome"), [(0, OK), (15, OK), (30, WARNING)]
)
@pytest.mark.parametrize("labels", [LABELS, None])
def test_rows_that_come_again_are_counted(again, outcome, labels):
    texts = TEXTS + [f"THIS  is {text[8:]}" for text in TEXTS[:again]]
    finding = repeats(texts, labels and labels + labels[:again])
    assert finding.outcome == outcome
    assert f"{again} of {len(texts)} in train" in finding.found
    assert "0 of 200 in dev" in finding.found
    assert "another label" not in finding.found


@pytest.mark.parametrize(("against", "outcome"), [(1, OK), (5, WARNING)])
def test_rows_against_the_others_of_their_text_are_counted(against, outcome):
    """Two of three have one label, and no model is right on the third."""
    texts = TEXTS + 2 * TEXTS[:against]
    others = [1 - label for label in LABELS[:against]]
    finding = repeats(texts, LABELS + others + LABELS[:against])
    assert finding.outcome == outcome
    said = f"{against} of {len(texts)} in train"
    assert said in finding.found.partition("another label")[2]


EMPTY = ["", "\u200b"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([TEXTS], None),
        ([[f'"{text}"' for text in TEXTS[:100]] + TEXTS[100:]], None),
        # As a writer of CSV leaves them.
        (
            [[f'"{text}"' for text in TEXTS[:195]] + TEXTS[195:]],
            'The text is within "…" in 195 of 200',
        ),
        ([TEXTS, EMPTY * 5 + TEXTS[10:]], None),
        (
            [TEXTS, EMPTY * 50 + TEXTS[100:]],
            "The second text is empty in 100 of 200 rows of train",
        ),
    ],
)
def test_odd_texts(columns, said):
    finding = doctor.odd_texts({"train": doctor.row_texts(Examples(columns))})
    assert (finding is None) == (said is None)
    if said:
        assert finding.outcome == WARNING
        assert said in finding.found


@pytest.mark.parametrize(
    ("cut", "outcome"), [(0, OK), (2, OK), (20, NOTE), (500, WARNING)]
)
def test_rows_that_are_cut_are_counted(cut, outcome):
    def encoded(num_rows, num_truncated):
        lengths = np.full(num_rows, 8 if num_truncated else 5, "int32")
        ids = np.zeros(lengths.sum(), "int32")
        return data.EncodedExamples(
            ids, ids, lengths, None, 8, num_truncated, pad_token_id=0
        )

    splits = {"train": encoded(1000, cut), "dev": encoded(10, 0)}
    finding = doctor.lengths_cut(splits, "--set length=")
    assert finding.outcome == outcome
    assert f"{cut} of 1000 rows of train" in finding.found
    assert ("--set length=16" in finding.advice) == (outcome in (NOTE, WARNING))


@pytest.mark.parametrize(
    ("task", "labels", "outcome"),
    [
        ("sst2", np.arange(20) % 2, OK),
        ("sst2", np.zeros(20, int), RUINS),
        ("stsb", np.array([0.0, 5.0]), OK),
        ("stsb", np.full(9, 2.5), RUINS),
    ],
)
def test_one_label_in_the_training_file_ruins_the_run(task, labels, outcome):
    assert doctor.class_balance(get_task(task), labels).outcome == outcome


def with_classes(name, kind):
    return dataclasses.replace(get_task(name), kind=kind)


@pytest.mark.parametrize(
    ("task", "alike", "different"),
    [
        (get_task("sst2"), np.ones(20, int), np.arange(20) % 2),
        (get_task("stsb"), np.full(20, 2.5), np.linspace(0, 5, 20)),
        (
            with_classes("conll", Tagging(("O", "B-PER"))),
            [np.zeros(2, int)] * 9,
            [np.array([0, 1])] * 9,
        ),
        (
            with_classes("multi_label", MultiLabel(("joy", "fear"))),
            np.array([[1, 0]] * 9),
            np.array([[1, 0], [1, 1]]),
        ),
    ],
    ids=["classes", "scores", "tags", "several labels"],
)
def test_rows_to_choose_on_with_one_label_are_a_warning(task, alike, different):
    assert doctor.dev_balance(task, different, "dev") is None
    assert doctor.dev_balance(task, alike, "dev").outcome == WARNING
    if task.name != "conll":
        logits = np.zeros((len(alike), task.num_classes))
        assert doctor.teacher_accuracy(task, alike, logits).outcome == NOTE


def test_a_student_that_is_no_smaller_is_a_warning():
    small, large = (architecture(bert(depth)) for depth in (1, 3))
    assert doctor.student_size(large, small).outcome == OK
    assert doctor.student_size(small, large).outcome == WARNING


NEEDED = 4 * (10**9 + 10**8 + 3 * 10**8)


@pytest.mark.parametrize(
    ("total", "available", "outcome"),
    [
        (4 * NEEDED, 2 * NEEDED, OK),
        (2 * NEEDED, NEEDED, WARNING),
        (NEEDED - 1, NEEDED - 1, RUINS),
    ],
)
def test_too_little_memory_ruins_the_run(
    total, available, outcome, monkeypatch
):
    machine = types.SimpleNamespace(total=total, available=available)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    finding = doctor.memory(10**9, 10**8, 10**8, 0, "32 × 128 tokens")
    assert finding.outcome == outcome
    assert "5.6 GB" in finding.found


@pytest.mark.parametrize(
    ("free", "outcome"), [(10**10, OK), (10**9, WARNING), (10**8, RUINS)]
)
def test_too_little_space_on_the_disk_ruins_the_run(
    free, outcome, tmp_path, monkeypatch
):
    usage = types.SimpleNamespace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    finding = doctor.disk(
        {"student": 5 * 10**8, "control": 4 * 10**8}, tmp_path / "a" / "b"
    )
    assert finding.outcome == outcome
    assert "About 900 MB" in finding.found
    assert f"free in {tmp_path}" in finding.found


def unknown_words(texts, pieces):
    return doctor.unknown_words(
        {"train": doctor.texts_with_unknown(texts, pieces)}, pieces
    )


@pytest.mark.parametrize(
    ("unknown", "outcome", "share"),
    [
        (0, OK, "0 %"),
        (1, OK, "0.5 %"),
        (2, WARNING, "1.0 %"),
        (100, RUINS, "50.0 %"),
    ],
)
def test_examples_with_unknown_words_are_counted(unknown, outcome, share):
    texts = [" ".join(WORDS[n % 4 : n % 4 + 4]) for n in range(200)]
    texts = [f"{text} café." for text in texts[:unknown]] + texts[unknown:]
    finding = unknown_words(texts, tokenizer())
    assert finding.outcome == outcome
    assert f"{unknown} of 200 examples of train ({share})" in finding.found
    assert (f"café ({unknown})" in finding.found) == bool(unknown)


@pytest.mark.parametrize(
    "family", large_except([*encoders.MAKERS], "bert", "albert")
)
def test_every_familys_unknown_token_is_found(family):
    known, unknown = encoders.SENTENCES, ["a dull é", "good 7 7"]
    own = encoders.tokenizer(family)
    encoded = data.encode(Examples(([*known, *unknown],)), own, 64)
    is_affected = doctor.has_unknown(encoded, own)
    assert is_affected.tolist() == [False] * len(known) + [True] * 2
    said = unknown_words([*known, *unknown], own).found
    assert f"2 of {len(known) + 2} examples" in said
    assert "7 (2), é (1)" in said


KINDS_OF_ROWS = {
    "pairs": (
        Examples((["ab", "ab", "é"], ["cd", "é", "cd"])),
        data.encode,
        [False, True, True],
        2,
    ),
    "questions": (
        Questions(
            ["ab cd", "ab cd"], ["ef", "ef"], [("gh", "ij"), ("gh", "é")]
        ),
        lambda *rows: data.encode_questions(*rows, 2),
        [False, True],
        1,
    ),
    "words": (
        TokenExamples(
            [("ab", "cd"), ("ab", "é ab", "é")],
            [np.zeros(2, "int32"), np.zeros(3, "int32")],
        ),
        data.encode_tokens,
        [False, True],
        2,
    ),
}


@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
def test_unknown_words_in_every_kind_of_rows(kind):
    rows, encode, expected, count = KINDS_OF_ROWS[kind]
    pieces = tokenizer()
    encoded = encode(rows, pieces, 16)
    assert doctor.has_unknown(encoded, pieces).tolist() == expected
    examples = doctor.given_texts(rows)
    said = doctor.unknown_words(
        {"dev": (examples, np.ones(len(examples), bool))}, pieces
    )
    assert f"é ({count})" in said.found
