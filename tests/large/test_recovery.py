"""Runs made again: what is missing of them, and from their file alone."""

import shutil

import numpy as np
import pytest
from kit import adapter
from kit.comparing import assert_same_numbers
from kit.finished import contents
from kit.helpers import eager_steps, large_except, read_events
from kit.runs import RUNS

LOST = [
    ("fine_tuned", ("teacher",)),
    ("vanilla_kd", ("student",)),
    ("vanilla_kd", ("student", "control")),
]


def go_on(workspace, name, run):
    """Runs a run's command again; returns what it prints."""
    with eager_steps():
        return workspace.run(*RUNS[name].words, "--run-dir", run)


@pytest.mark.parametrize(("name", "lost"), large_except(LOST, LOST[0]))
def test_a_lost_model_is_made_again_from_its_stages(
    name, lost, workspace, tmp_path
):
    run = workspace.copy(name, tmp_path / "run")
    kept = (*lost, "metrics.jsonl")

    def of_interest():
        return {one for one in contents(run) if one[0].startswith(kept)}

    before = of_interest()
    for model in lost:
        shutil.rmtree(run / model)
    assert of_interest() < before
    assert "making it again" in go_on(workspace, name, run)
    assert of_interest() == before
    assert "nothing to do" in go_on(workspace, name, run)


@pytest.mark.large
def test_without_its_stages_a_lost_model_is_trained_again_and_ends_once(
    workspace, tmp_path
):
    run = workspace.copy("fine_tuned", tmp_path / "run")
    (before,) = read_events(run, "run_finished")
    for lost in ("teacher", "checkpoints"):
        shutil.rmtree(run / lost)
    go_on(workspace, "fine_tuned", run)
    (after,) = read_events(run, "run_finished")
    assert after["best"]["teacher"].keys() == before["best"]["teacher"].keys()
    assert after["time"] > before["time"]
    assert (run / "teacher").is_dir()


def test_a_lost_model_is_told_with_what_helps(workspace, tmp_path):
    run = workspace.copy("vanilla_kd", tmp_path / "run")
    shutil.rmtree(run / "student")
    answer = adapter.command(["evaluate", run])
    assert answer.status == 2
    assert "control" in answer.err
    assert adapter.command(["evaluate", run, "--arm", "control"]).status == 0


@pytest.mark.large
def test_a_run_is_made_again_from_its_file_alone(
    workspace, tmp_path, monkeypatch
):
    first, again = workspace.make("vanilla_kd"), tmp_path / "again"
    monkeypatch.chdir(tmp_path)
    shutil.copy(first / "config.json", "settings.json")
    with eager_steps():
        workspace.run(*("distill", "settings.json", "--run-dir", again))
    assert_same_numbers(again, first)
    models = (adapter.load("classifier", run) for run in (first, again))
    for one, other in zip(
        *(model.get_weights() for model in models), strict=True
    ):
        np.testing.assert_array_equal(one, other)
