"""The first quick step of a distillation, and --force."""

import dataclasses

import pytest
from kit.helpers import read_events

from kdkit.cli.main import main
from kdkit.doctor import (
    OUTCOMES,
    RUINS,
    Finding,
    Findings,
    examination,
    text_examination,
)
from kdkit.errors import RunError
from kdkit.io.machine import byte_size
from kdkit.recipes import RECIPES, fine_tuning
from kdkit.reporting import read_run
from kdkit.reporting.notes import run_notes
from kdkit.runs import smoke, task_parts
from kdkit.runs.directory import RunDirectory
from kdkit.runs.log import log_findings
from kdkit.training import (
    ModelSettings,
    TeacherSettings,
    distill,
    train_teacher,
)


def counted(monkeypatch, module, name):
    """The calls of a function of a module, as they come."""
    calls = []
    function = getattr(module, name)

    def call(*arguments):
        calls.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(module, name, call)
    return calls


@pytest.fixture
def examined(monkeypatch):
    """How often runs were examined."""
    return counted(monkeypatch, examination, "examine")


@pytest.fixture
def stopped(monkeypatch):
    """Runs end where they would begin to train."""

    def stop(*unused):
        raise KeyboardInterrupt

    monkeypatch.setattr(task_parts, "evaluate_teachers", stop)


@pytest.fixture
def leaky(made, settings, tmp_path):
    """Settings of a run that trains on dev."""
    folder = tmp_path / "data" / "SST-2"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        source = "dev" if split == "train" else split
        text = (made / "SST-2" / f"{source}.tsv").read_text()
        (folder / f"{split}.tsv").write_text(text)
    data = dataclasses.replace(settings.data, data_dir=str(folder.parent))
    return dataclasses.replace(settings, data=data)


def test_a_run_is_examined_once_and_all_is_logged(
    settings, tmp_path, examined, stopped, logged
):
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            distill(settings, tmp_path / "run")
    assert len(examined) == 1
    (event,) = read_events(tmp_path / "run", "doctor")
    assert not event["forced"]
    checks = [finding["check"] for finding in event["findings"]]
    assert {"teacher accuracy", "label order", "vocabulary"} <= set(checks)
    assert "time" not in checks
    assert all(one["outcome"] in OUTCOMES for one in event["findings"])
    printed = logged()
    assert f"doctor: {len(checks)} ok." in printed


def test_a_run_that_would_be_ruined_is_refused(leaky, tmp_path):
    with pytest.raises(RunError, match="rows kept apart.*--force"):
        distill(leaky, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_force_goes_on_and_leaves_a_note(
    leaky, config, tmp_path, stopped, capsys
):
    place = str(tmp_path / "run")
    words = ["distill", "tinybert", "--config", config(leaky)]
    assert main([*words, "--run-dir", place]) == 1
    assert "Nothing was trained" in capsys.readouterr().err
    assert main([*words, "--run-dir", place, "--force"]) == 130
    assert "continuing in spite of rows kept apart" in capsys.readouterr().out
    (event,) = read_events(tmp_path / "run", "doctor")
    assert event["forced"]
    notes = " ".join(run_notes(read_run(tmp_path / "run")))
    assert "Begun with --force" in notes
    assert "rows kept apart" in notes


@pytest.mark.large
def test_the_data_of_a_teacher_are_examined_too(
    leaky, tmp_path, monkeypatch, logged
):
    settings = TeacherSettings(
        data=leaky.data,
        model=ModelSettings(checkpoint=leaky.teacher),
        stages=fine_tuning.STAGES,
        jit_compile=False,
    )
    with pytest.raises(RunError, match="rows kept apart.*--force"):
        train_teacher(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()

    def stop(*unused):
        raise KeyboardInterrupt

    monkeypatch.setattr(task_parts, "log_model", stop)
    with pytest.raises(KeyboardInterrupt):
        train_teacher(settings, tmp_path / "run", force=True)
    assert "continuing in spite of rows kept apart" in logged()
    (event,) = read_events(tmp_path / "run", "doctor")
    assert event["forced"]
    checks = {finding["check"] for finding in event["findings"]}
    assert {"data", "repeated rows", "lengths"} < checks
    assert {"rows kept apart", "class balance"} < checks
    assert "models" not in checks  # no student is compared


TEXT = [f"line {number} of a text that goes on" for number in range(60)]


def test_steps_on_text_are_examined_before_the_first(
    tmp_path, monkeypatch, capsys
):
    """The held-out file was one of the training files, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(TEXT))
    (tmp_path / "held_out.txt").write_text("\n".join(TEXT[:20]))
    words = [
        "lightpaff", "--model", "gpt2", "--decoder", "gpt2_medium_en",
        "--vocabulary-size", "300", "--corpus", "text.txt",
        "--task-text", "text.txt", "--task-held-out", "held_out.txt",
        "--cache", "caches",
        "--set", "stages.0.objectives.0.loss.top_k=8",
    ]  # fmt: skip
    assert main(["doctor", *words]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    # About four letters a token: the whole vocabulary, or 8 of it.
    general, held_out = (
        (tmp_path / f"{name}.txt").stat().st_size // 4
        for name in ("text", "held_out")
    )
    for size in (general * 300, (general + held_out) * 17):
        assert (
            f"About {byte_size(4 * size)} will be written (outputs" in printed
        )
    assert "20 are also among the 60 that step teacher trains on" in printed
    assert "GPT-2 24×1024" in printed
    assert main(["distill", *words, "--run-dir", "run"]) == 1
    assert "texts kept apart" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_later_steps_on_text_know_what_was_found_before_the_first(tmp_path):
    found = Findings([Finding("texts kept apart", RUINS, "5 of 20", "advice")])
    first = RunDirectory(tmp_path / "pretrained_run")
    first.path.mkdir()
    log_findings(first, found)
    recipe = RECIPES["lightpaff"].for_families["gpt2"]
    pipeline = smoke.on_text(recipe, tmp_path)
    again = text_examination.examine_steps_first(pipeline, force=False)
    assert again == found
    assert again.ruinous  # so that their logs say --force, too
