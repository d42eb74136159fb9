"""Runs with additional knowledge: unlabelled text, several teachers."""

import dataclasses
import json
import math

import numpy as np
import pytest
from kit.helpers import read_events

from kdkit import data
from kdkit.errors import UsageError
from kdkit.models import Head, load_classifier
from kdkit.recipes import RECIPES
from kdkit.recipes.stages import Stage
from kdkit.runs import smoke
from kdkit.runs.examples import LoadedRows
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import (
    BilstmSettings,
    DataSettings,
    ModelSettings,
    UnlabeledSettings,
    distill,
)
from kdkit.training.task_data import TrainingRows, load_unlabeled

ROWS = 32


@pytest.fixture(scope="module")
def settings(finished_run):
    """Vanilla KD to a BiLSTM, from the teacher of the finished run."""
    made = smoke.distillation(RECIPES["vanilla_kd"])
    return dataclasses.replace(
        override(made, [f"data.max_train_rows={ROWS}"]),
        teacher=str(finished_run / "teacher_run"),
        student=ModelSettings(bilstm=BilstmSettings(4, 6, 8)),
    )


@pytest.fixture(scope="module")
def run(settings, finished_run, tmp_path_factory):
    """With the finished run's student as second teacher, and more text."""
    folder = tmp_path_factory.mktemp("transfer")
    train, dev = (
        data.load_sentiment(split).texts[0] for split in ("train", "dev")
    )
    file = folder / "text.txt"
    file.write_text("\n".join([*train[-20:], dev[3].upper()]))
    vectors = folder / "vectors.txt"
    vectors.write_text("plot 1 2 3 4 5 6\n")
    settings = override(settings, [f"student.bilstm.word_vectors={vectors}"])
    settings = dataclasses.replace(
        settings,
        unlabeled=UnlabeledSettings((str(file),), per_labeled=0.5),
        more_teachers=(str(finished_run / "student"),),
        teacher_weights=(3.0, 1.0),
    )
    distill(settings, folder / "run")
    return folder / "run"


def test_unlabelled_rows_of_dev_are_dropped_and_counted(run):
    (event,) = read_events(run, "unlabeled")
    assert (event["rows"], event["dropped"]) == (21, 1)
    assert event["compared_with"] == ["dev", "test"]


def test_an_epoch_has_the_stated_proportion(run):
    (epoch,) = read_events(run, "epoch")
    assert epoch["step"] == np.ceil(1.5 * ROWS / 32)
    assert {"hard_label_loss", "soft_cross_entropy"} <= epoch["logs"].keys()


def test_every_teacher_is_evaluated(run, finished_run):
    arms = [event["arm"] for event in read_events(run, "evaluation")]
    assert arms == ["teacher", "teacher_2", "student"]
    second = read_events(run, "evaluation")[1]["metrics"]
    (finished,) = read_events(finished_run, "run_finished")
    assert second == finished["best"]["student"]["metrics"]


def test_classes_of_a_bilstm_are_named_and_must_be_the_tasks(run):
    labels = json.loads((run / "labels.json").read_text())
    names = tuple(labels["classes"])
    assert load_classifier(run, Head("sequence", 2, names))
    with pytest.raises(UsageError, match="are not the task's"):
        load_classifier(run, Head("sequence", 2, names[::-1]))


def test_text_that_is_all_in_dev_is_refused(settings, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(data.load_sentiment("dev").texts[0][0])
    settings = dataclasses.replace(
        settings, unlabeled=UnlabeledSettings((str(file),))
    )
    with pytest.raises(UsageError, match="None of 1 unlabelled"):
        distill(settings, tmp_path / "run")


def encoded_rows(count):
    lengths = np.full(count, 3, "int32")
    token_ids = np.ones(3 * count, "int32")
    return data.EncodedExamples(
        token_ids=token_ids,
        segment_ids=np.zeros_like(token_ids),
        lengths=lengths,
        labels=np.arange(count, dtype="int32"),
        sequence_length=3,
        num_truncated=0,
        pad_token_id=0,
    )


@pytest.mark.parametrize("per_labeled", [0.15, 0.4, 1.0, 2.5])
def test_control_has_as_many_updates_as_with_the_unlabelled_rows(
    per_labeled, settings
):
    """Each of its rows as often as the others, or once more."""
    labeled, text = encoded_rows(40), encoded_rows(200)
    settings = dataclasses.replace(
        settings,
        unlabeled=UnlabeledSettings(("text.txt",), per_labeled=per_labeled),
        data=dataclasses.replace(settings.data, num_buckets=1),
    )
    loaded = LoadedRows(TrainingRows(labeled), None, text, {}, settings)
    stage = Stage("any", 2, 1e-3, hard_label_weight=1.0, batch_size=8)
    student, control = (
        source.training_stream(stage, 0)
        for source in (loaded.source(None), loaded.control_source(None))
    )
    updates = math.ceil(5 * (1 + per_labeled))
    assert control.batches_per_epoch == student.batches_per_epoch == updates
    seen = np.concatenate([y for _, y in control.training().take(updates)])
    assert len(seen) == 40 + 40 * per_labeled
    counts = np.bincount(seen, minlength=40)
    assert counts.min() == int(1 + per_labeled)
    assert counts.max() - counts.min() <= 1


def test_a_malformed_test_file_does_not_switch_off_the_check(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("sentence\tlabel\na film\t1\n")
    (folder / "test.tsv").write_text("index\tsentence\n0\ta\tb\n")
    text = tmp_path / "text.txt"
    text.write_text("some words")
    with pytest.raises(UsageError, match="test.tsv, line 2"):
        load_unlabeled(
            get_task("sst2"),
            DataSettings("sst2", str(tmp_path), 32),
            UnlabeledSettings((str(text),)),
            tokenizer=None,
        )
