"""Runs of kdkit 0.1: complete ones are read, others are refused in a line."""

import json
import shutil

import pytest
from helpers import change_events, decoder, large_except, read_events
from parallel import of_sentences, translation, write_parallel

from kdkit import models
from kdkit.cli.main import main
from kdkit.training import pretrain

LENGTH = 8
# What 0.1 called the student of a run on text.
SAVED_IN = {"gpt2": "decoder", "mass": "encoder_decoder"}


def words_of(family, folder, path):
    """The command that makes a student on text."""
    if family == "mass":
        return translation(folder, folder / "pretrained", path)
    text = str(folder / "train.en")
    return [
        *("pretrain", "--recipe", "lightpaff", "--stage", "fine_tuning"),
        *("--teacher", str(folder / "teacher")),
        *("--model", str(folder / "teacher"), "--corpus", text),
        *("--held-out", text, "--run-dir", str(path)),
        *("--set", f"corpus.sequence_length={LENGTH}"),
        *("--set", "jit_compile=false", "--set", "stages.0.epochs=1"),
    ]


@pytest.fixture(scope="module", params=large_except([*SAVED_IN], "gpt2"))
def made(request, tmp_path_factory):
    """A family, a folder, and in it a run as this version makes it."""
    family, folder = request.param, tmp_path_factory.mktemp("runs")
    write_parallel(folder)
    if family == "mass":
        pretrain(of_sentences(folder), folder / "pretrained")
    else:
        lines = (folder / "train.en").read_text()
        tokenizer = models.train_byte_pairs([lines], 262)
        model = decoder(
            1, vocabulary_size=tokenizer.vocabulary_size(), hidden_dim=16
        )
        models.save_language_model(model, tokenizer, folder / "teacher", LENGTH)
    assert main(words_of(family, folder, folder / "run")) == 0
    return family, folder


@pytest.fixture
def earlier(made, tmp_path):
    """The same run as 0.1 made it."""
    family, folder = made
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    saved = SAVED_IN[family]
    (run / "student").rename(run / saved)
    (run / "checkpoints" / "student").rename(run / "checkpoints" / saved)

    def rename(event):
        if event.get("arm") == "student":
            event["arm"] = saved
        if "best" in event:
            event["best"] = {saved: event["best"]["student"]}

    change_events(run, rename)
    config = json.loads((run / "config.json").read_text())
    config["provenance"]["versions"]["kdkit"] = "0.1.0"
    (run / "config.json").write_text(json.dumps(config))
    return family, folder, run


def test_a_student_is_saved_under_one_name_for_every_family(made):
    _, folder = made
    assert (folder / "run" / "student" / "config.json").is_file()
    (finished,) = read_events(folder / "run", "run_finished")
    assert list(finished["best"]) == ["student"]


def test_a_complete_run_is_read(earlier, capsys):
    family, folder, run = earlier
    assert main(words_of(family, folder, run)) == 0
    assert "is finished: nothing to do" in capsys.readouterr().out
    assert main(["evaluate", str(run)]) == 0
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    (finished,) = read_events(run, "run_finished")
    best = finished["best"][SAVED_IN[family]]["metrics"]
    assert metrics["perplexity"] == pytest.approx(best["perplexity"], rel=1e-3)
    assert (
        main(["export", str(run), "--no-teacher", "--precision", "fp32"]) == 0
    )
    name = f"{SAVED_IN[family]}-fp32.tflite"
    names = {file.name for file in (run / "exports").iterdir()}
    assert names == {"README.md", name}
    words = ["--prompt", "a dog", "--max-tokens", "4"]
    assert main(["generate", str(run), *words]) == 0
    assert main(["report", str(run)]) == 0
    assert "student" in capsys.readouterr().out


@pytest.mark.large
def test_a_complete_run_is_a_checkpoint_of_a_later_step(earlier, tmp_path):
    family, folder, run = earlier
    words = words_of(family, folder, tmp_path / "later")
    words[words.index("--model") + 1] = str(run)
    words[words.index("--teacher") + 1] = str(run)
    assert main(words) == 0
    assert (tmp_path / "later" / "student").is_dir()


@pytest.mark.parametrize("lost", ["the end of its log", "its model"])
def test_an_incomplete_run_is_refused_with_the_version(earlier, lost, capsys):
    family, folder, run = earlier
    if lost == "its model":
        shutil.rmtree(run / SAVED_IN[family])
    else:
        log = run / "metrics.jsonl"
        *lines, last = log.read_text().splitlines(keepends=True)
        assert "run_finished" in last
        log.write_text("".join(lines))
    before = sorted(run.rglob("*"))
    capsys.readouterr()
    assert main(words_of(family, folder, run)) == 2
    error = capsys.readouterr().err
    assert "was begun by kdkit 0.1.0" in error
    assert error.count("\n") == 1
    assert sorted(run.rglob("*")) == before
