"""Finished runs whose models are missing: rebuilt."""

import shutil

import pytest
from kit.helpers import read_events

from kdkit.cli.main import main
from kdkit.io.files import digest
from kdkit.training import distill, train_teacher

pytestmark = pytest.mark.usefixtures("quick_runs")


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of the finished run, to take something out of."""
    return shutil.copytree(finished_run, tmp_path / "run")


def assert_made_again(make, run, logged, *models):
    """The same bytes and the same log, and nothing to do afterwards."""
    log = (run / "metrics.jsonl").read_bytes()
    before = [digest(run / model) for model in models]
    for model in models:
        if (run / model).is_dir():
            shutil.rmtree(run / model)
        else:
            (run / model).unlink()
    make()
    output = logged()
    assert "was finished, but its model" in output
    assert "is missing: making it again." in output
    assert "finished earlier, weights loaded" in output
    assert [digest(run / model) for model in models] == before
    assert (run / "metrics.jsonl").read_bytes() == log
    make()
    assert "is finished: nothing to do" in logged()


@pytest.mark.large
@pytest.mark.parametrize(
    "arms",
    [["student"], ["student", "control"]],
    ids=str,
)
def test_a_lost_student_is_made_again_from_its_stages(
    arms, run, smoke_settings, logged
):
    def make():
        distill(smoke_settings, run)

    assert_made_again(make, run, logged, *arms)


def test_a_lost_teacher_is_made_again(run, smoke_settings, logged):
    teacher_run = run / "teacher_run"

    def make():
        train_teacher(smoke_settings.teacher, teacher_run)

    assert_made_again(make, teacher_run, logged, "teacher")


@pytest.mark.large
def test_without_its_stages_a_lost_model_is_trained_again_and_ends_once(
    run, smoke_settings
):
    teacher_run = run / "teacher_run"
    (before,) = read_events(teacher_run, "run_finished")
    shutil.rmtree(teacher_run / "teacher")
    shutil.rmtree(teacher_run / "checkpoints")
    train_teacher(smoke_settings.teacher, teacher_run)
    (after,) = read_events(teacher_run, "run_finished")
    assert after["best"]["teacher"].keys() == before["best"]["teacher"].keys()
    assert after["time"] > before["time"]
    assert (teacher_run / "teacher").is_dir()


def test_a_lost_model_is_told_with_what_helps(run, capsys):
    shutil.rmtree(run / "student")
    assert main(["evaluate", str(run)]) == 2
    told = capsys.readouterr().err
    assert "has no model student. Available: control" in told
    assert main(["evaluate", str(run), "--arm", "control"]) == 0
