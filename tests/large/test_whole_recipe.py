"""TinyBERT whole: general distillation, augmentation, task distillation."""

import dataclasses
import json

import keras_hub
import numpy as np
import pytest
from kit.helpers import read_events

from kdkit import data
from kdkit.cli.main import main
from kdkit.models import load_classifier
from kdkit.runs import smoke
from kdkit.training import CorpusSettings, pretrain

pytestmark = pytest.mark.usefixtures("quick_runs")

ROWS, DEV_ROWS, NUM_TEXTS = 24, 8, 60
SMALL = [
    f"general.model.{name}={value}"
    for name, value in {
        "num_layers": 2,
        "hidden_dim": 16,
        "num_heads": 4,
        "intermediate_dim": 32,
        "max_sequence_length": 32,
        "dropout": 0.0,
    }.items()
]
QUICK = [
    "general.corpus.sequence_length=32",
    "general.corpus.held_out_every=20",
    "general.stages.0.epochs=2",
    "general.stages.0.learning_rate=1e-3",
    "general.jit_compile=false",
    "stages.0.epochs=1",
    "stages.1.epochs=1",
    "data.sequence_length=32",
    "data.num_buckets=1",
    "augmented.made_by.augmentation.num_copies=2",
    "augmented.made_by.augmentation.num_candidates=3",
    "jit_compile=false",
]


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory):
    path = tmp_path_factory.mktemp("masked_lm") / "run"
    (stage,) = smoke.PRETRAINING.stages
    settings = dataclasses.replace(
        smoke.PRETRAINING,
        corpus=CorpusSettings(
            sequence_length=32, held_out_every=20, max_texts=200
        ),
        stages=(dataclasses.replace(stage, batch_size=512),),
    )
    pretrain(settings, path)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small task and running text."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "SST-2").mkdir()
    for split, count in (("train", ROWS), ("dev", DEV_ROWS)):
        rows = data.load_sentiment(split)
        lines = [
            f"{text}\t{label}\n"
            for text, label in zip(
                rows.texts[0][:count], rows.labels[:count], strict=True
            )
        ]
        (folder / "SST-2" / f"{split}.tsv").write_text(
            "sentence\tlabel\n" + "".join(lines)
        )
    texts = data.load_sentiment("train").texts[0][-NUM_TEXTS:]
    (folder / "text.txt").write_text("\n".join(texts))
    return folder


@pytest.fixture(scope="module")
def command(finished_run, masked_lm, place):
    def make(run_dir, *more):
        return [
            "distill", "tinybert", "--task", "sst2", "--data-dir", str(place),
            "--teacher", str(finished_run / "teacher_run"),
            "--pretrained", str(masked_lm),
            "--general", str(place / "general"),
            "--corpus", str(place / "text.txt"),
            "--augment", str(place / "copies.tsv"),
            "--augment-model", str(masked_lm),
            "--run-dir", str(run_dir), *more,
            *(word for setting in (*SMALL, *QUICK) for word in
              ("--set", setting)),
        ]  # fmt: skip

    return make


@pytest.fixture(scope="module")
def run(command, place):
    assert main(command(place / "run")) == 0
    return place / "run"


@pytest.mark.large
def test_general_distillation_compares_encoders_and_its_loss_falls(run, place):
    first, last = (
        event["metrics"]
        for event in read_events(place / "general", "evaluation")
    )
    assert set(first) == {"loss", "attention_mse", "hidden_state_mse"}
    assert last["loss"] < first["loss"]


@pytest.mark.large
def test_student_starts_from_it(run, place):
    config = json.loads((run / "config.json").read_text())
    assert config["student"]["checkpoint"] == str(place / "general")
    first = keras_hub.models.Backbone.from_preset(
        str(place / "general" / "student")
    )
    last = load_classifier(run, num_classes=2).model.backbone
    moved = [
        np.abs(before - after).max()
        for before, after in zip(
            first.get_weights(), last.get_weights(), strict=True
        )
    ]
    # Close, after a few steps; newly initialised weights would be far away.
    assert 0 < max(moved) < 0.05


@pytest.mark.large
def test_an_epoch_has_rows_and_copies(run, place):
    (counts,) = read_events(run, "augmented")
    lines = (place / "copies.tsv").read_text().splitlines()[1:]
    assert counts["rows"] == ROWS
    assert counts["copies"] + counts["left_out"] == len(lines) > ROWS
    assert counts["rows_of_epoch"] == ROWS + counts["copies"]
    for epoch in read_events(run, "epoch"):
        assert epoch["step"] == -(-counts["rows_of_epoch"] // 32)


@pytest.mark.large
def test_what_was_made_from_the_same_is_used_again(run, command, place, capsys):
    words = ["--seed", "1", "--set", "augmented.copies_per_epoch=1"]
    assert main(command(place / "again", *words)) == 0
    out = capsys.readouterr().out
    assert f"{place / 'general'}: started earlier, same corpus" in out
    assert f"{place / 'copies.tsv'}: made earlier, from the same inputs" in out
    # Copies are drawn again for each epoch.
    (counts,) = read_events(place / "again", "augmented")
    assert ROWS < counts["rows_of_epoch"] <= 2 * ROWS < counts["copies"] + ROWS


@pytest.mark.large
def test_parts_of_a_cache_share_copies_and_need_no_general_student(
    command, tmp_path, capsys
):
    words = ["cache", *command(tmp_path / "run")[1:]]
    place = words.index("--run-dir")
    del words[place : place + 2]
    words[words.index("--general") + 1] = str(tmp_path / "general")
    words[words.index("--augment") + 1] = str(tmp_path / "copies.tsv")
    words += ["--cache", str(tmp_path / "cache")]
    for shard in (["--shard", "1/2"], ["--shard", "2/2"], []):
        assert main([*words, *shard]) == 0
        out = capsys.readouterr().out
        made = "copies.tsv: made earlier" in out
        assert made == (shard != ["--shard", "1/2"])
    left = {path.name for path in tmp_path.glob("[!.]*")}
    assert left == {"cache", "copies.tsv", "copies.tsv.json"}


@pytest.mark.large
def test_other_inputs_are_refused_by_their_content(
    run, command, place, masked_lm, capsys
):
    text = place / "text.txt"
    before = text.read_text()
    text.write_text(f"{before}\nanother film")
    try:
        assert main(command(place / "other")) == 2
    finally:
        text.write_text(before)
    assert "content of the corpus has changed" in capsys.readouterr().err
    train = place / "SST-2" / "train.tsv"
    before = train.read_text()
    train.write_text(f"{before}another film\t1\n")
    try:
        assert main(command(place / "other")) == 2
    finally:
        train.write_text(before)
    assert (
        "made with other settings: the content of the texts"
        in capsys.readouterr().err
    )


def refused(words, capsys):
    assert main(words) == 2
    return capsys.readouterr().err


def test_mistakes_are_told_before_work(
    command, place, finished_run, tmp_path, capsys
):
    distill = [
        "distill", "tinybert", "--task", "sst2", "--data-dir", str(place),
        "--teacher", str(finished_run / "teacher_run"),
        "--run-dir", str(tmp_path / "run"),
    ]  # fmt: skip
    message = refused([*distill, "--general", str(tmp_path / "no")], capsys)
    assert str(tmp_path / "no") in message
    words = [*distill[:1], "pkd", *distill[2:], "--general", "x"]
    assert "'pkd' has no stage on running text" in refused(words, capsys)
    assert not (tmp_path / "run" / "config.json").exists()
