"""experiments/difficulty.py: the study of LightPAFF's table 8."""

import contextlib
import io
import json
import pathlib

import numpy as np
import pytest
from helpers import ENGLISH
from helpers import experiment
from helpers import read_events

from kdkit import models
from kdkit.errors import UsageError
from kdkit.reporting import read_run
from kdkit.reporting.notes import run_notes
from kdkit.runs import Pipeline

difficulty = experiment("difficulty")
PAD, START, END, MASK = SPECIAL = (0, 2, 3, 4)


def test_bert_sees_what_is_not_hidden():
    x = {
        # Hidden: a mask, a random token, the token itself.
        "token_ids": [
            [START, 9, MASK, 9, END, 7, 5, END],
            [START, 8, 8, 8, 8, 8, MASK, END],
        ],
        "padding_mask": np.ones((2, 8)),
        "mask_positions": [[2, 5, 6], [1, 6, 7]],
    }
    weights = [[1, 1, 1], [0, 1, 0]]
    expected = (3 * 2 / 5 + 5 / 6) / 4
    share = difficulty.masked_share([(x, np.zeros((2, 3)), weights)], SPECIAL)
    assert share == pytest.approx(expected)


def test_mass_sees_the_rest_of_the_sentence_and_what_it_has_read():
    x = {
        "encoder_token_ids": [
            [START, 9, MASK, 9, 7, END],  # of 4 tokens the 2nd and the 3rd
            [START, MASK, 8, END, PAD, PAD],
        ],
        "encoder_padding_mask": [[1] * 6, [1] * 4 + [0] * 2],
        "decoder_token_ids": [[START, 6], [START, PAD]],
        "decoder_padding_mask": [[1, 1], [1, 0]],
        "decoder_positions": np.array([[1, 2], [0, 0]]),
    }
    weights = [[1, 1], [1, 0]]
    expected = (2 / 4 + 3 / 4 + 1 / 2) / 3
    share = difficulty.span_share([(x, np.zeros((2, 2)), weights)], SPECIAL)
    assert share == pytest.approx(expected)


def test_gpt2_sees_what_is_before():
    full = {"token_ids": [[END, 5, 6, END]], "padding_mask": [[1] * 4]}
    last = {"token_ids": [[7, 8, PAD, PAD]], "padding_mask": [[1, 1, 0, 0]]}
    batches = [
        # The end of a text is predicted too, and is none of its tokens.
        (full, [[5, 6, END, 7]], [[1, 1, 1, 1]]),
        (last, [[8, PAD, PAD, PAD]], [[1, 0, 0, 0]]),
    ]
    expected = (0 / 3 + 1 / 3 + 2 / 3 + 1 / 2) / 4
    assert difficulty.next_token_share(batches, SPECIAL) == pytest.approx(
        expected
    )


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The words of a command, and where its runs are."""
    folder = tmp_path_factory.mktemp("difficulty")
    (folder / "train.txt").write_text("\n".join(16 * ENGLISH))
    (folder / "valid.txt").write_text("\n".join(6 * ENGLISH))
    runs = folder / "runs"
    words = [
        "--corpus", str(folder / "train.txt"),
        "--held-out", str(folder / "valid.txt"),
        "--vocabulary-size", "290", "--num-layers", "2",
        "--hidden-dim", "16", "--num-heads", "2", "--run-dir", str(runs),
        "--set", "stages.0.epochs=1", "--set", "jit_compile=false",
        "--set", "corpus.sequence_length=16",
    ]  # fmt: skip
    return words, runs


@pytest.fixture(scope="module")
def said(command):
    """What the command prints that goes on with what was stopped."""
    words, runs = command

    run = Pipeline.run

    def stop(pipeline):
        if pipeline.run_dir.name == "bert":
            raise KeyboardInterrupt
        run(pipeline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipeline, "run", stop)
        assert difficulty.main(words) == 130
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert difficulty.main(words) == 0
    return output.getvalue()


@pytest.mark.large
def test_the_command_goes_on_where_it_stopped(command, said):
    _, runs = command
    assert f"The run in {runs / 'mass'} is finished: nothing to do." in said
    assert f"The run in {runs / 'bert'} is finished" not in said


@pytest.mark.large
def test_each_model_has_its_runs_accuracy_beside_the_papers(command, said):
    _, runs = command
    found = json.loads(said.splitlines()[-1])["models"]
    assert [row["model"] for row in found] == [
        "BERT 2×16", "MASS 1+1×16", "GPT-2 2×16",
    ]  # fmt: skip
    assert [tuple(row["paper"].values()) for row in found] == [
        ("BERT", 0.73, 0.85), ("MASS", 0.62, 0.75), ("GPT-2", 0.42, 0.5),
    ]  # fmt: skip
    for row, name, metric in zip(
        found,
        ("bert", "mass", "gpt2"),
        ("masked_accuracy", "token_accuracy", "next_token_accuracy"),
        strict=True,
    ):
        *_, last = read_events(runs / name, "evaluation")
        assert row["accuracy"] == last["metrics"][metric]
    assert "table 8" in said


@pytest.mark.large
def test_shares_are_those_of_the_text_that_is_held_out(command, said):
    _, runs = command
    bert, mass, gpt2 = json.loads(said.splitlines()[-1])["models"]
    tokenizer = models.load_tokenizer(runs / "mass")
    # Cut where they do not fit between start and end.
    lengths = np.array([min(len(tokenizer(line)), 14) for line in ENGLISH])
    spans = np.maximum(np.round(lengths / 2), 1)
    # The mean of 0, 1, ... of a span's tokens, and the rest of the sentence.
    shares = (lengths - spans + (spans - 1) / 2) / lengths
    assert mass["seen"] == pytest.approx(np.average(shares, weights=spans))
    # Two of at most 14 tokens of a row are hidden, less where texts end in it.
    assert 1 - 2 / 8 < bert["seen"] < 1 - 2 / 14
    assert gpt2["seen"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.large
def test_the_share_stands_in_the_runs_report(command, said):
    _, runs = command
    for row in json.loads(said.splitlines()[-1])["models"]:
        (note,) = [
            note
            for note in run_notes(read_run(row["run"]))
            if "difficulty" in note
        ]
        assert f"Sees {100 * row['seen']:.0f} %" in note


@pytest.mark.large
def test_the_runs_leave_presets_that_read_the_same_tokens(command, said):
    _, runs = command
    loaded = {
        name: models.load_language_model(runs / name).tokenizer
        for name in ("bert", "mass", "gpt2")
    }
    for tokenizer in loaded.values():
        models.check_same_ids(loaded["mass"], tokenizer)
        np.testing.assert_array_equal(
            tokenizer("a dog sleeps"), loaded["mass"]("a dog sleeps")
        )
    others = models.student(
        "bert_3_layer_en_uncased",
        family="roberta",
        vocabulary_size=9,
        num_layers=1,
        hidden_dim=4,
        num_heads=1,
        intermediate_dim=4,
    )
    with pytest.raises(UsageError, match="RoBERTa cannot use the tokens"):
        models.family_tokenizer(others, loaded["mass"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--corpus", "nowhere.txt"], "nowhere.txt"),
        (["--seed", "-1"], "a seed from 0 to 4294967295"),
        (["--num-heads", "3"], "num_heads must divide hidden_dim"),
        (["--num-layers", "3"], "Expected an even number"),
        (["--set", "corpus.sequence_length=600"], "512 positions"),
        (["--set", "corpus.colour=1"], "colour"),
        (["--corpus", __file__, __file__], "have 1 held out"),
    ],
)
def test_mistakes_are_told_in_one_line(
    changes, message, command, tmp_path, capsys
):
    words, _ = command
    words = [*words, *changes, "--run-dir", str(tmp_path / "runs")]
    assert difficulty.main(words) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_several_files_need_their_held_out_ones(command, tmp_path, capsys):
    words, _ = command
    at = words.index("--held-out")
    words = [*words[:at], *words[at + 2 :], "--run-dir", str(tmp_path / "runs")]
    files = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    for file in files:
        pathlib.Path(file).write_text("some words\n")
    assert difficulty.main([*words, "--corpus", *files]) == 2
    assert "Pass --held-out" in capsys.readouterr().err
