"""What verbs say to do next: commands that work."""

import json
import logging
import pathlib
import shlex
import shutil

import pytest

from kdkit.cli import next_steps
from kdkit.cli.main import main, make_verb_parser
from kdkit.cli.next_steps import (
    after_export,
    after_student,
    after_teacher,
    log_next,
    no_next_steps,
)
from kdkit.cli.resolving import distill_settings
from kdkit.runs.directory import read_config
from kdkit.tasks import get_task


def test_commands_are_quoted_and_aligned(caplog):
    caplog.set_level(logging.INFO, "kdkit")
    log_next([(["report", "my run"], "a page"), (["export", "r"], "files")])
    assert caplog.messages == [
        "Next:\n  kdkit report 'my run'  # a page\n"
        "  kdkit export r         # files"
    ]
    with no_next_steps():
        log_next([(["report", "my run"], "a page")])
    log_next([])
    assert len(caplog.messages) == 1


def write_run(path, teacher_files=()):
    """Writes a run's records, with files of its teacher."""
    path = pathlib.Path(path)
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text('{"verb": "distill", "teacher": "t"}')
    lines = [
        {
            "event": "export",
            "time": 1.0,
            "arm": "teacher",
            "file": f"exports/teacher/teacher-{precision}.tflite",
            "format": "litert",
            "precision": precision,
            "size_bytes": 1,
        }
        for precision in teacher_files
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (path / "metrics.jsonl").write_text(text)


def test_a_run_that_is_not_finished_has_no_next_step(tmp_path):
    assert after_student(str(tmp_path)) == after_teacher(str(tmp_path)) == []


def test_after_a_student_come_files_and_a_page(finished_run):
    run = str(finished_run)
    steps = [words for words, _ in after_student(run)]
    assert steps == [["export", run], ["report", run]]


def test_after_a_collapse_comes_a_longer_run(finished_run, monkeypatch):
    run = str(finished_run)  # its student gives every example the same answer
    monkeypatch.setattr(
        next_steps, "open_task", lambda settings: get_task("sst2")
    )
    (longer, why), (larger, _) = after_student(run)
    stage = read_config(run)["stages"][-1]
    assert why.startswith(("dev loss was still falling", "the student has col"))
    options = make_verb_parser("distill").parse_args(longer[1:])
    made = distill_settings(options)
    assert options.run_dir == f"{run}_again"
    assert made.stages[-1].epochs == 3 * stage["epochs"]
    assert made.control[0].epochs == sum(one.epochs for one in made.stages)
    made = distill_settings(make_verb_parser("distill").parse_args(larger[1:]))
    assert made.stages[-1].learning_rate == 4 * stage["learning_rate"]


def test_after_files_come_latency_and_a_page(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_run("r")
    assert [words for words, _ in after_export(None, ["a.tflite"])] == [
        ["benchmark", "a.tflite"]
    ]
    assert [words for words, _ in after_export("r", ["r/exports/a.onnx"])] == [
        ["benchmark", "r"],
        ["report", "r"],
    ]
    # kdkit benchmark RUN does not measure files in other folders.
    assert [words for words, _ in after_export("r", ["new/a.onnx"])] == [
        ["benchmark", "new/a.onnx"],
        ["report", "r"],
    ]


def test_the_teachers_fp32_file_is_proposed_until_it_is_there(tmp_path):
    run, written = str(tmp_path / "r"), ["int8"]
    write_run(run, written)
    files = [f"{run}/exports/student-int8.tflite"]
    words = ["export", run, "--arm", "teacher", "--precision", "fp32"]
    assert after_export(run, files)[0][0] == words
    assert after_export(run, files, 64)[0][0] == [
        *words, "--sequence-length", "64",
    ]  # fmt: skip
    write_run(run, [*written, "fp32"])
    files = [f"{run}/exports/teacher/teacher-fp32.tflite"]
    assert [words for words, _ in after_export(run, files)] == [
        ["benchmark", run],
        ["report", run],
    ]


def test_the_distillation_after_a_teacher_has_a_new_directory(
    finished_run, tmp_path
):
    teacher = tmp_path / "teacher"
    shutil.copytree(finished_run / "teacher_run", teacher)
    (tmp_path / "teacher_vanilla_kd").mkdir()
    (distill, _), (report, _) = after_teacher(str(teacher))
    assert distill == [
        "distill",
        "vanilla_kd",  # the teacher has 3 layers
        "--teacher",
        str(teacher),
        "--control",
        "--run-dir",
        f"{teacher}_vanilla_kd_2",
    ]
    assert report == ["report", str(teacher)]


@pytest.mark.large
def test_the_commands_work(finished_run, tmp_path, capsys):
    teacher = str(tmp_path / "teacher")
    shutil.copytree(finished_run / "teacher_run", teacher)
    (distill, _), _ = after_teacher(teacher)
    quick = ["data.max_train_rows=32", "stages.0.epochs=1", "jit_compile=false"]
    commands, ran = [[*distill, *quick]], []
    while commands:
        ran.append(commands.pop(0))
        assert main(ran[-1]) == 0
        for line in (
            capsys.readouterr().out.partition("Next:\n")[2].splitlines()
        ):
            words = shlex.split(line, comments=True)
            if words[0] == "kdkit" and words[1:] not in [*commands, *ran]:
                commands.append(words[1:])
    assert [words[0] for words in ran] == [
        "distill",
        "export",
        "report",
        "benchmark",
    ]
