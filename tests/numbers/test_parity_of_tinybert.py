"""A run with --parity tinybert: its losses are those of the authors' code."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from kit.helpers import DEV_ROWS, read_events, to_numpy

from kdkit import data, taps
from kdkit.cli import resolving
from kdkit.cli.main import make_verb_parser
from kdkit.models import load_classifier
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override, to_dict
from kdkit.tasks import get_task
from kdkit.training import distill

pytestmark = pytest.mark.usefixtures("quick_runs")

ROWS, LENGTH = 16, 32


@pytest.fixture(scope="module")
def run(finished_run, tmp_path_factory):
    """One update so small that the student stays as it was before it."""
    settings = override(
        smoke.distillation(RECIPES["tinybert"], "tinybert"),
        [
            f"data.max_train_rows={ROWS}",
            "student.num_layers=1",
            "student.hidden_dim=32",
            f"stages.0.batch_size={ROWS}",
            "stages.0.learning_rate=1e-12",
            "stages.0.objectives.hidden_state_mse.projection=null",
        ],
    )
    settings = dataclasses.replace(
        settings,
        teacher=str(finished_run / "teacher_run"),
        stages=settings.stages[:1],
    )
    path = tmp_path_factory.mktemp("parity") / "run"
    distill(settings, path)
    return path


def authors_losses(teacher, student, encoded, rows, length):
    """Both losses of rows that are padded to a length, as their code has them.

    The means of MSELoss over everything: scores with the mask added, of which
    those up to -100 are 0, and all hidden states.
    """
    token_ids = np.zeros((len(rows), length), "int32")
    for place, number in enumerate(rows):
        row = encoded.row(number)
        token_ids[place, : len(row)] = row
    x = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": (token_ids != 0).astype("int32"),
    }
    wanted = ["attention_logits", "hidden_states"]
    theirs, ours = (
        to_numpy(taps.tapped(model, wanted)(x)) for model in (teacher, student)
    )
    mask = -10000.0 * (1 - x["padding_mask"][:, None, None, :])

    def scores(attention):
        attention = attention + mask
        return np.where(attention <= -1e2, 0.0, attention)

    def mse(one, other):
        return np.mean((one - other) ** 2)

    return {
        "attention_mse": mse(
            scores(theirs["attention_logits"][-1]),
            scores(ours["attention_logits"][-1]),
        ),
        "hidden_state_mse": sum(
            mse(theirs["hidden_states"][block], ours["hidden_states"][block])
            for block in (0, -1)
        ),
    }


@pytest.mark.large
def test_the_losses_of_a_run_are_those_of_rows_of_the_full_length(
    run, finished_run
):
    teacher = load_classifier(finished_run / "teacher_run", 2)
    student = load_classifier(run / "student", 2).model
    task = get_task("sentiment")
    (logs,) = (event["logs"] for event in read_events(run, "epoch"))
    train = task.load("train", None)
    drawn = np.random.default_rng(0).permutation(len(train))[:ROWS]
    dev = range(DEV_ROWS)
    for split, rows, prefix in (("train", drawn, ""), ("dev", dev, "val_")):
        encoded = task.encode(task.load(split, None), teacher.tokenizer, LENGTH)
        longest = int(encoded.lengths[list(rows)].max())
        assert longest < LENGTH
        expected, bucketed = (
            authors_losses(teacher.model, student, encoded, rows, length)
            for length in (LENGTH, longest)
        )
        for name, value in expected.items():
            assert logs[prefix + name] == pytest.approx(value, rel=1e-4)
            assert bucketed[name] != pytest.approx(value, rel=1e-3)
        # Padded keys add nothing and are counted.
        shorter = bucketed["attention_mse"] / expected["attention_mse"]
        assert shorter > 1.3


def settings_of(*words, recipe="tinybert"):
    parser = make_verb_parser("distill")
    return resolving.distill_settings(
        parser.parse_args([recipe, "--run-dir", "unused", *words])
    )


@pytest.mark.parametrize(("task", "length"), [("sst2", 64), ("mrpc", 128)])
def test_rows_are_as_long_as_the_papers_for_the_task(task, length):
    words = ("--task", task, "--teacher", "unread", "--parity", "tinybert")
    made = settings_of(*words).data
    assert (made.sequence_length, made.num_buckets) == (length, None)
    paper = settings_of("--task", task, "--teacher", "unread").data
    assert (paper.sequence_length, paper.num_buckets) == (length, 8)


def test_one_length_is_for_losses_that_count_padding(tmp_path, caplog):
    caplog.set_level(logging.INFO, "kdkit")
    smoke_run = ("--smoke", "--parity", "tinybert")
    assert settings_of(*smoke_run).data.num_buckets is None
    assert (
        "padded to 32 tokens, because attention_mse, hidden_state_mse"
        in caplog.text
    )
    caplog.clear()
    assert settings_of("--smoke").data.num_buckets == 1
    assert settings_of("--smoke", "--parity", "paper").data.num_buckets == 1
    assert not caplog.text
    # What somebody set, or a run was begun with, stays.
    chosen = settings_of(*smoke_run, "--set", "data.num_buckets=4")
    assert chosen.data.num_buckets == 4
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_dict(chosen)))
    assert settings_of("--config", str(file)).data.num_buckets == 4


def test_batches_of_one_length_have_that_of_the_rows():
    tokens = [[2, 5, 3], [2, 5, 6, 7, 3]]
    encoded = data.EncodedExamples(
        token_ids=np.concatenate(tokens).astype("int32"),
        segment_ids=np.zeros(8, "int32"),
        lengths=np.array([3, 5], "int32"),
        labels=np.array([0, 1], "int32"),
        sequence_length=12,
        num_truncated=0,
        pad_token_id=0,
    )
    unlabeled = dataclasses.replace(encoded, labels=None)
    examples, rows_of_epoch = data.mix_unlabeled(encoded, unlabeled, 1.0)
    mixed = data.BatchStream(examples, data.Buckets(1, None, rows_of_epoch))
    stream = data.BatchStream(encoded, data.Buckets(1, None))
    for some in (
        stream.training().take(4),
        mixed.training().take(4),
        stream.evaluation(),
    ):
        shapes = {x["token_ids"].shape for x, *_ in some.as_numpy_iterator()}
        assert shapes == {(1, 12)}
