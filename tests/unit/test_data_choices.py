"""Multiple choice: RACE's files, and the sequences that a model reads."""

import json

import numpy as np
import pytest
from kit import encoders
from kit.helpers import large_except

from kdkit.data import (
    BatchStream,
    Buckets,
    Examples,
    Questions,
    encode,
    encode_questions,
)
from kdkit.tasks import get_task

PASSAGE = {
    "id": "middle7.txt",
    "article": "the plot is dull",
    "questions": ["is the plot fresh ?", "the plot"],
    "options": [["dull", "fresh", "warm", "cold"], ["a", "b", "c", "d d d"]],
    "answers": ["B", "D"],
}


@pytest.fixture
def questions():
    return Questions(
        ["the plot is dull", "the cast is warm and the music is fresh"],
        ["is it ?", "the plot"],
        [("dull", "very dull"), ("warm", "cold")],
        np.array([1, 0], "int32"),
    )


def write_lines(data_dir, *passages, split="train", level="middle"):
    folder = data_dir / f"race_{level}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{split}_{level}.jsonl"
    path.write_text("\n".join(map(json.dumps, passages)) + "\n")
    return path


def decoded(encoded, tokenizer, number):
    ids = encoded.row(number)
    return " ".join(tokenizer.id_to_token(int(token)) for token in ids)


def test_each_option_is_a_sequence_with_passage_and_question(
    questions, tokenizer
):
    encoded = encode_questions(questions, tokenizer, 32, num_options=2)
    assert len(encoded) == 2
    assert encoded.num_truncated == 0
    assert decoded(encoded, tokenizer, 1) == (
        "[CLS] the plot is dull [SEP] is it ? very dull [SEP]".replace(
            "it ?",
            " ".join(tokenizer.id_to_token(i) for i in tokenizer("it ?")),
        )
    )
    second = encoded.lengths[0]
    segments = encoded.segment_ids[second : second + encoded.lengths[1]]
    assert segments.tolist() == [0] * 6 + [1] * (encoded.lengths[1] - 6)
    assert encoded.row_lengths.tolist() == [
        max(encoded.lengths[:2]),
        max(encoded.lengths[2:]),
    ]


@pytest.mark.parametrize(
    "family", large_except(["xlm_roberta", "albert"], "albert")
)
def test_questions_are_packed_as_the_family_packs_pairs(family):
    tokenizer = encoders.tokenizer(family)
    rows = Questions(
        ["the cast is good"], ["the end"], [("is dull", "is good")], None
    )
    encoded = encode_questions(rows, tokenizer, 64, num_options=2)
    pairs = Examples(
        (2 * ["the cast is good"], ["the end is dull", "the end is good"])
    )
    expected = encode(pairs, tokenizer, 64)
    np.testing.assert_array_equal(encoded.token_ids, expected.token_ids)
    np.testing.assert_array_equal(encoded.lengths, expected.lengths)


def test_the_passage_is_cut_first_then_the_beginning_of_the_question(tokenizer):
    rows = Questions(
        ["the cast is warm"], ["the plot is"], [("dull", "fresh")], None
    )
    encoded = encode_questions(rows, tokenizer, 9, num_options=2)
    assert decoded(encoded, tokenizer, 0) == (
        "[CLS] the cast [SEP] the plot is dull [SEP]"
    )
    assert encoded.num_truncated == 1
    encoded = encode_questions(rows, tokenizer, 6, num_options=2)
    assert decoded(encoded, tokenizer, 1) == "[CLS] [SEP] plot is fresh [SEP]"


def test_batches_hold_all_options_of_their_questions(questions, tokenizer):
    encoded = encode_questions(questions, tokenizer, 32, num_options=2)
    stream = BatchStream(encoded, Buckets(1, num_buckets=2))
    order = [row for (row,), _ in stream.evaluation_batches]
    batches = list(stream.evaluation().as_numpy_iterator())
    assert [labels.tolist() for _, labels in batches] == [
        [questions.labels[row]] for row in order
    ]
    for row, (inputs, _) in zip(order, batches, strict=True):
        assert inputs["token_ids"].shape == (2, encoded.row_lengths[row])
        for option in range(2):
            real = inputs["padding_mask"][option] == 1
            np.testing.assert_array_equal(
                inputs["token_ids"][option][real], encoded.row(2 * row + option)
            )
    stream = BatchStream(encoded, Buckets(2, num_buckets=1))
    assert stream.steps_per_epoch == 1
    ((inputs, labels),) = stream.training().take(1)
    assert (len(inputs["token_ids"]), len(labels)) == (4, 2)


def test_questions_are_taken_by_row(questions):
    taken = questions.take([1])
    assert taken.options == [("warm", "cold")]
    assert taken.labels.tolist() == [0]


def test_race_reads_one_passage_a_line(tmp_path):
    write_lines(tmp_path, PASSAGE)
    rows = get_task("race_middle").load("train", tmp_path)
    assert rows.passages == [PASSAGE["article"]] * 2
    assert rows.questions == PASSAGE["questions"]
    assert rows.options[1] == ("a", "b", "c", "d d d")
    assert rows.labels.tolist() == [1, 3]


def test_race_reads_the_official_folders_and_joins_the_levels(tmp_path):
    folder = tmp_path / "RACE" / "dev" / "high"
    folder.mkdir(parents=True)
    (folder / "3.txt").write_text(json.dumps({**PASSAGE, "article": "high"}))
    write_lines(tmp_path, PASSAGE, split="dev")
    assert len(get_task("race_high").load("dev", tmp_path)) == 2
    rows = get_task("race").load("dev", tmp_path)
    assert rows.passages == [PASSAGE["article"]] * 2 + ["high"] * 2
