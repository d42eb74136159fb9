"""The doctor's examination before a run, and --force."""

import shutil

import pytest
from kit.adapter import command
from kit.helpers import read_events
from kit.runs import RUNS

from kdkit.reporting import read_run, render_report


@pytest.fixture
def leaky(workspace, tmp_path):
    """A folder of the task whose training rows are those of dev."""
    data = shutil.copytree(workspace.path / "data", tmp_path / "data")
    folder = data / "SST-2"
    shutil.copy(folder / "dev.tsv", folder / "train.tsv")
    return data


@pytest.mark.parametrize("name", ["pkd", "fine_tuned"])
def test_a_run_that_would_be_ruined_is_refused_but_for_force(
    name, leaky, workspace, tmp_path
):
    run = tmp_path / "run"
    words = [leaky if word == "@data" else word for word in RUNS[name].words]
    words = workspace.words([*words, "--run-dir", run])
    answer = command(words)
    assert answer.status == 1
    assert "rows kept apart" in answer.err
    assert "--force" in answer.err
    assert not run.exists()
    answer = command([*words, "--force"])
    assert answer.status == 0
    assert "rows kept apart" in answer.out
    (event,) = read_events(run, "doctor")
    assert event["forced"]
    checks = {finding["check"]: finding for finding in event["findings"]}
    assert checks["rows kept apart"]["outcome"] != "ok"
    page = render_report(read_run(run))
    assert "--force" in page
    assert "rows kept apart" in page


def test_what_was_found_is_logged_once(workspace):
    (event,) = read_events(workspace.make("pkd"), "doctor")
    assert not event["forced"]
    found = {one["check"]: one["outcome"] for one in event["findings"]}
    assert found.keys() >= {"teacher accuracy", "label order", "vocabulary"}
    assert "time" not in found
    (event,) = read_events(workspace.make("fine_tuned"), "doctor")
    found = {one["check"]: one["outcome"] for one in event["findings"]}
    assert found.keys() >= {"data", "repeated rows", "lengths", "class balance"}
    assert "models" not in found  # no student is compared


TEXT = [f"line {number} of a text that goes on" for number in range(60)]


def test_steps_on_text_are_examined_before_the_first(tmp_path, monkeypatch):
    """The held-out file was one of the training files, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(TEXT))
    (tmp_path / "held_out.txt").write_text("\n".join(TEXT[:20]))
    words = [
        *("lightpaff", "--model", "gpt2", "--decoder", "gpt2_medium_en"),
        *("--vocabulary-size", "300", "--corpus", "text.txt"),
        *("--task-text", "text.txt", "--task-held-out", "held_out.txt"),
    ]
    answer = command(["doctor", *words])
    assert answer.status == 1
    printed = " ".join(answer.out.split())
    assert "20 are also among the 60 that step teacher trains on" in printed
    assert "GPT-2 24×1024" in printed
    answer = command(["distill", *words, "--run-dir", "run"])
    assert answer.status == 1
    assert "texts kept apart" in answer.err
    assert not (tmp_path / "run").exists()
