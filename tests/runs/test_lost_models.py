"""Finished runs whose models are missing or damaged: rebuilt."""

import dataclasses
import shlex
import shutil

import pytest
from helpers import read_events

from kdkit.cli.main import main
from kdkit.io.files import digest
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import distill, pretrain, train_teacher


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


@pytest.mark.large
def test_an_arm_that_is_there_is_left_when_another_is_made_again(
    run, smoke_settings
):
    shutil.rmtree(run / "control")
    shutil.rmtree(run / "checkpoints" / "student")  # to have more room
    before = (run / "metrics.jsonl").read_bytes()
    distill(smoke_settings, run)
    assert (run / "metrics.jsonl").read_bytes() == before
    assert (run / "control").is_dir()
    assert not (run / "checkpoints" / "student").exists()


def test_a_lost_teacher_is_made_again(run, smoke_settings, logged):
    teacher_run = run / "teacher_run"

    def make():
        train_teacher(smoke_settings.teacher, teacher_run)

    assert_made_again(make, teacher_run, logged, "teacher")


@pytest.mark.large
def test_a_lost_encoder_is_made_again(tmp_path, logged):
    settings = override(
        smoke.PRETRAINING, ["corpus.max_texts=200", "stages.0.epochs=1"]
    )

    def make():
        pretrain(settings, tmp_path / "run")

    make()
    assert_made_again(make, tmp_path / "run", logged, "encoder")


@pytest.mark.large
@pytest.mark.parametrize("lost", ["student.keras", "tokenizer"])
def test_a_lost_part_of_a_bilstm_is_made_again(lost, run, logged):
    settings = override(
        smoke.distillation(RECIPES["distilled_bilstm"]),
        ["data.max_train_rows=64", "stages.0.epochs=1"],
    )
    settings = dataclasses.replace(settings, teacher=str(run / "teacher_run"))

    def make():
        distill(settings, run.parent / "bilstm")

    make()
    assert_made_again(make, run.parent / "bilstm", logged, lost)


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
    assert "was finished, but its model 'student' is missing" in told
    assert "Available: ['control']" in told
    assert "command again, which makes the model again" in told
    assert main(["evaluate", str(run), "--arm", "control"]) == 0


def test_a_run_that_is_not_finished_is_told_so(run, capsys):
    for arm in ("student", "control"):
        shutil.rmtree(run / arm)
    log = run / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "run_fin" not in line))
    assert main(["evaluate", str(run)]) == 2
    told = capsys.readouterr().err
    assert "has no model, because it is not finished. Run its command" in told


def flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def remove(name):
    return lambda file: (file.parent / name).unlink()


@pytest.mark.parametrize(
    ("part", "arm", "damage"),
    [
        (".", "student", flip_a_bit),
        *(
            pytest.param(*values, marks=pytest.mark.large)
            for values in (
                ("teacher_run", "teacher", flip_a_bit),
                (".", "student", remove("config.json")),
                (".", "student", remove("digests.json")),
            )
        ),
    ],
    ids=["student", "teacher", "config", "digests"],
)
def test_what_is_said_of_a_damaged_model_of_a_run_mends_it(
    part, arm, damage, run, capsys
):
    model = run / part / arm
    before = digest(model)
    damage(model / "model.weights.h5")
    assert main(["evaluate", str(run / part)]) == 2
    told = capsys.readouterr().err
    assert f"Or remove {model}; it is then rebuilt from its check" in told
    command = shlex.split(told[told.index("by: kdkit ") :])[2:]
    shutil.rmtree(model)
    assert main(command) == 0
    assert digest(model) == before
    assert main(["evaluate", str(run / part)]) == 0


def test_a_damaged_model_without_its_stages_is_trained_again(run, capsys):
    flip_a_bit(run / "student" / "model.weights.h5")
    shutil.rmtree(run / "checkpoints")
    assert main(["evaluate", str(run)]) == 2
    assert "trained again, because its checkpoints are missing, by: kdkit" in (
        capsys.readouterr().err
    )


def test_a_damaged_model_outside_of_a_run_is_not_made_by_one(run, capsys):
    copy = shutil.copytree(run / "student", run.parent / "copy")
    flip_a_bit(copy / "model.weights.h5")
    assert main(["evaluate", str(copy), "--task", "sentiment"]) == 2
    told = capsys.readouterr().err
    assert "Restore it from a copy, or make the model again." in told
    assert "kdkit distill" not in told
