"""The doctor's checks of rows, texts and memory: one problem at a time."""

import json
import types

import numpy as np
import psutil
import pytest
from kit import encoders
from kit.helpers import large_except
from kit.tasks import WORDS
from patients import tokenizer

from kdkit.data import EncodedExamples, Examples, Questions, TokenExamples
from kdkit.doctor import OK, RUINS, WARNING, data
from kdkit.doctor.teachers import dev_set_aside
from kdkit.doctor.training import memory
from kdkit.tasks import from_table, get_task


def examined(texts, task="sst2", **fields):
    """A run with the given texts by split."""
    fields.setdefault("config", types.SimpleNamespace(unlabeled=None))
    task = task and get_task(task)
    return types.SimpleNamespace(task=task, texts=texts, **fields)


FAMILIES = [*filter("roberta".__ne__, encoders.MAKERS)]  # knows all bytes
TRAIN = [(f"row number {number}",) for number in range(100)]
DEV = [(f"other row {number}",) for number in range(50)]


@pytest.mark.parametrize(
    ("inside", "outcome"), [(0, OK), (1, WARNING), (20, RUINS)]
)
def test_rows_of_dev_that_are_trained_on_are_counted(inside, outcome):
    run = examined({"train": TRAIN + DEV[:inside], "dev": DEV})
    (finding,) = data.rows_kept_apart(run)
    assert finding[0] == outcome
    assert f"{inside} of 50 in dev" in finding[1]
    assert ("other row 0" in finding[1]) == bool(inside)


@pytest.mark.parametrize(
    ("trained", "held_out", "inside"),
    [
        (("A  film.",), ("a film.",), 1),
        (("a film",), ("a film .",), 0),
        (("one text", "other text"), ("Other text", "one text"), 1),
        (("a b", "c d", "e f"), ("a b", "e f", "c d"), 0),
    ],
)
def test_rows_are_compared_without_capitals_and_pairs_in_any_order(
    trained, held_out, inside
):
    run = examined({"train": [trained], "dev": [held_out]})
    (finding,) = data.rows_kept_apart(run)
    assert f"{inside} of 1 in dev" in finding[1]


def test_rows_have_all_their_texts():
    assert Examples((["a", "c"], ["d", "e"])).rows == [("a", "d"), ("c", "e")]
    question = Questions(["P"], ["q ?"], [("x", "y")])
    assert question.rows == [("P", "q ?", "x", "y")]
    assert TokenExamples([("no", "rain")]).rows == [("no", "rain")]


LINES = [f"line {number} of some running text" for number in range(20)]


@pytest.mark.parametrize(
    ("train", "held_out", "outcome", "said"),
    [
        (LINES[5:], [*LINES[:5], "Chapter 1"], OK, "0 of 5"),
        ([*LINES[5:], "Chapter 1"], [LINES[0], "chapter 1"], OK, "0 of 1"),
        (LINES, LINES[:5], RUINS, "5 of 5"),
    ],
)
def test_held_out_lines_in_the_training_text_are_counted(
    train, held_out, outcome, said
):
    sides = {"train": train, "the held-out text": held_out}
    texts = {name: [(one,) for one in side] for name, side in sides.items()}
    (finding,) = data.rows_kept_apart(examined(texts, task=None))
    assert finding[0] == outcome
    assert said in finding[1]


TEXTS = [f"this is the text of row {number}" for number in range(200)]
MARKED = '"he said ""no"""'


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (TEXTS, None),
        ([f'"{text}"' for text in TEXTS[:100]] + TEXTS[100:], None),
        ([MARKED, *TEXTS], "1 of 201 in train"),
        # As a writer that quotes all texts leaves them.
        (
            [f'"{text}"' for text in TEXTS[:195]] + TEXTS[195:],
            "195 of 200 in train",
        ),
    ],
)
def test_texts_that_a_csv_writer_quoted(texts, said, tmp_path):
    run = examined({"train": [(text,) for text in texts]})
    findings = [*data.quoted_cells(run)]
    assert [one[0] for one in findings] == [WARNING] * bool(said)
    assert all(said in one[1] for one in findings)


def test_unlabelled_texts_that_a_csv_writer_quoted(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("a text\nanother one\n")
    unlabeled = types.SimpleNamespace(files=(str(file),), columns=())
    config = types.SimpleNamespace(unlabeled=unlabeled)
    run = examined({"train": TRAIN}, config=config)
    assert not [*data.quoted_cells(run)]
    file.write_text("\n".join([f'"text {n} ""so"" "' for n in range(20)]))
    ((outcome, found, _),) = data.quoted_cells(run)
    assert outcome == WARNING
    assert "20 of 20 in the unlabelled text" in found


@pytest.mark.parametrize(
    ("cut", "outcome"), [(0, OK), (99, OK), (100, WARNING)]
)
def test_rows_that_are_cut_are_counted(cut, outcome):
    ids, lengths = np.zeros(8000, "int32"), np.full(1000, 8, "int32")
    encoded = EncodedExamples(ids, ids, lengths, None, 8, cut, pad_token_id=0)
    run = examined({}, encoded={"train": encoded})
    (finding,) = data.truncated_examples(run)
    assert finding[0] == outcome
    assert f"{cut} of 1000 in train" in finding[1]


def test_a_length_is_named_with_which_files_are_padded_less():
    ids, lengths = np.zeros(80, "int32"), np.array([23, 57])
    encoded = EncodedExamples(ids, ids, lengths, None, 128, 0, pad_token_id=0)
    ((outcome, found, _),) = data.truncated_examples(
        examined({}, encoded={"dev": encoded})
    )
    assert outcome == OK
    assert "the longest has 57" in found
    assert "--max-length 64" in found


def test_a_teacher_may_have_learned_from_rows_that_are_set_aside(tmp_path):
    table, teacher = tmp_path / "a.csv", tmp_path / "teacher"
    rows = [f"text {number},{number % 2}" for number in range(40)]
    table.write_text("\n".join(["text,label", *rows]))
    teacher.mkdir()
    config = types.SimpleNamespace(teachers=(str(teacher),))

    def findings(**files):
        columns = {"text_column": "text", "label_column": "label"}
        task = from_table(str(table), **columns, **files)
        return [*dev_set_aside(types.SimpleNamespace(task=task, config=config))]

    ((outcome, found, _),) = findings()
    assert outcome == WARNING
    assert "10 % of a.csv set aside" in found
    assert not findings(dev=str(table))
    (teacher / "metrics.jsonl").touch()  # a run of kdkit sets them aside, too
    for files, count in (({}, 0), ({"dev": "dev.csv"}, 1)):
        own = {"data": {"table": {"train": str(table), **files}}}
        (teacher / "config.json").write_text(json.dumps(own))
        assert len(findings()) == count


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
    weight = types.SimpleNamespace(shape=(10**4, 10**4))

    def model(count):
        return types.SimpleNamespace(
            count_params=lambda: count, trainable_weights=[weight]
        )

    kind = types.SimpleNamespace(
        teachers=[types.SimpleNamespace(model=model(10**9))],
        model=model(10**8),
        arms={},
    )
    run = examined({}, kind=kind)
    run.config.kind = "task"
    (finding,) = memory(run)
    assert finding[0] == outcome
    assert "5.6 GB" in finding[1]


def unknown_words(texts, own):
    kind = types.SimpleNamespace(tokenizer=own)
    (finding,) = data.unknown_words(examined({"train": texts}, kind=kind))
    return finding


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
    texts = [f"{text} café" for text in texts[:unknown]] + texts[unknown:]
    finding = unknown_words([("ab", text) for text in texts], tokenizer())
    assert finding[0] == outcome
    assert f"{unknown} of 200 in train ({share})" in finding[1]
    assert (f"café ({unknown})" in finding[1]) == bool(unknown)


@pytest.mark.parametrize("family", large_except(FAMILIES, "bert", "albert"))
def test_every_familys_unknown_token_is_found(family):
    texts = [*encoders.SENTENCES, "a dull é", "good 7 7"]
    rows = [(text,) for text in texts]
    said = unknown_words(rows, encoders.tokenizer(family))[1]
    assert f"2 of {len(texts)} in train" in said
    assert "7 (2), é (1)" in said
