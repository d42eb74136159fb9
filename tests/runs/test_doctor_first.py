"""The doctor's examination before a run, and --force."""

import shutil

import pytest
from kit.adapter import command
from kit.helpers import read_events
from kit.runs import RUNS
from kit.tasks import write_encoder

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
    page = render_report([read_run(run)])
    assert "--force" in page
    assert "rows kept apart" in page


def test_what_was_found_is_logged_once(workspace):
    (event,) = read_events(workspace.make("pkd"), "doctor")
    assert not event["forced"]
    found = {one["check"] for one in event["findings"]}
    assert found >= {"teacher accuracy", "label order", "memory"}
    (event,) = read_events(workspace.make("fine_tuned"), "doctor")
    found = {one["check"] for one in event["findings"]}
    assert found >= {"rows kept apart", "truncated examples"}
    assert "label order" not in found  # there is no teacher


TEXT = [f"line {number} of a text that goes on" for number in range(60)]


def test_a_held_out_text_that_is_trained_on_ruins_the_run(tmp_path):
    """The held-out file was one of the training files, too."""
    write_encoder(tmp_path / "encoder")
    files = tmp_path / "text.txt", tmp_path / "held_out.txt"
    for file, lines in zip(files, (TEXT, TEXT[:20]), strict=True):
        file.write_text("\n".join(lines))
    words = ["pretrain", "--corpus", files[0], "--held-out", files[1]]
    words += ["--model", tmp_path / "encoder", "corpus.sequence_length=16"]
    run = tmp_path / "run"
    answer = command([*words, "--run-dir", run])
    assert answer.status == 1
    assert "20 of 20 in the held-out text" in " ".join(answer.out.split())
    assert not run.exists()
