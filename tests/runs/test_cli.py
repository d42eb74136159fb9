"""The command line: what it prints, its exit status, its errors."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from kit import failing_disks
from kit.helpers import DEV_ROWS, read_events

from kdkit.cli.main import main
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES
from kdkit.tasks import TASKS

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run_dir(finished_run, tmp_path_factory):
    """A copy of the finished run, to export into."""
    path = tmp_path_factory.mktemp("cli") / "run"
    shutil.copytree(finished_run, path)
    return path


@pytest.fixture(scope="module")
def exported(run_dir):
    """The run with LiteRT files, their latency and its teacher's."""
    teacher = run_dir / "teacher_run"
    assert main(["export", str(teacher), "--precision", "fp32"]) == 0
    assert main(["export", str(run_dir), "--precision", "fp32", "int8"]) == 0
    command = ["benchmark", str(run_dir), "--runs", "3", "--warmup", "1"]
    assert main(command) == 0
    return run_dir


def events_of(run, kind, arm=None):
    return [e for e in read_events(run, kind) if arm in (None, e["arm"])]


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


MISTAKES = [
    "destill",
    "train-teacher --task sst2",
    "train-teacher --smoke --set nothing=1 --run-dir RUN",
    "pretrain --smoke --set stages.0.nothing=1 --run-dir RUN",
    "distill nothing --run-dir RUN",
    "distill tinybert --smoke --nothing --run-dir RUN",
    "distill tinybert --smoke --epochs many --run-dir RUN",
    "distill tinybert --parity nothing --smoke --run-dir RUN",
    "distill tinybert --smoke --run-dir RUN stages.0.epochs=0",
    "distill tinybert --smoke --run-dir RUN stages.0.objectives.0.loss=nothing",
    "distill tinybert --task nothing --teacher RUN --run-dir RUN",
    "distill sentence_embedding --smoke --run-dir RUN stages.0.nothing=1",
    "distill lightpaff --model gpt2 --smoke --run-dir RUN general.nothing=1",
    "distill lightpaff --model mass --smoke --run-dir RUN stages.0.epochs=x",
    "doctor tinybert --smoke --set nothing=1",
    "sweep tinybert --smoke --run-dir RUN --over nothing=1,2",
    "ablate nothing --over objectives --run-dir RUN",
    "show tinybert --task nothing",
    "init nothing",
    "report MISSING",
]


def test_help_and_wrong_words_do_not_load_tensorflow():
    code = (
        "import sys\n"
        "from kdkit.cli.main import VERBS, main\n"
        "helped = [main([verb, '--help']) for verb in VERBS]\n"
        f"told = [main(line.split()) for line in {MISTAKES}]\n"
        "print(set(helped), set(told))\n"
        "print({'tensorflow', 'keras'} & set(sys.modules))\n"
    )
    *_, statuses, loaded = python(code).splitlines()
    assert statuses == "{0} {2}"
    assert loaded == "set()"


@pytest.mark.parametrize(
    "arguments",
    [
        ["destill"],
        ["distill", "tinybert", "--smoke"],
        ["distill", "tinybert", "--unknown", "1", "--smoke", "--run-dir", "x"],
        ["benchmark", "kdkit", "--threads", "many"],
    ],
)
def test_unknown_words_are_one_line_and_status_2(
    arguments, capsys, monkeypatch
):
    monkeypatch.chdir(ROOT)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1


def test_list_and_show_print_recipes(capsys):
    assert main(["list"]) == 0
    output = capsys.readouterr().out
    for name in (*RECIPES, *PRESETS, *TASKS):
        assert f" {name} " in output  # whole, also in a narrow terminal
    assert main(["show", "tinybert", "--task", "cola"]) == 0
    assert '"epochs": 50' in capsys.readouterr().out


def test_evaluate_takes_arms_presets_and_files(exported, tmp_path, capsys):
    file = exported / "exports" / "student-int8.tflite"
    elsewhere = tmp_path / "model.tflite"
    shutil.copy(file, elsewhere)
    task = ["--task", "sentiment"]
    accuracies = []
    for arguments in (
        [str(exported), "--arm", "control"],
        [str(exported / "student"), *task],
        [str(file)],
        [str(elsewhere), *task, "--tokenizer", str(exported)],
    ):
        assert main(["evaluate", *arguments, "--split", "test"]) == 0
        result = last_json(capsys.readouterr().out)
        assert result["split"] == "test"
        accuracies.append(result["metrics"]["accuracy"])
    assert accuracies[2] == accuracies[3]


def test_export_of_a_run_exports_its_teacher_in_int8(exported):
    (event,) = events_of(exported, "export", "teacher")
    assert event["file"] == "exports/teacher/teacher-int8.tflite"
    assert (event["precision"], event["split"]) == ("int8", "dev")
    teacher = events_of(exported, "evaluation", "teacher")[0]["metrics"]
    for name, value in teacher.items():
        assert abs(event["metrics"][name] - value) <= 2 / DEV_ROWS
    timed = {event["file"] for event in read_events(exported, "latency")}
    assert timed == {
        "exports/student-fp32.tflite", "exports/student-int8.tflite",
        "exports/teacher/teacher-int8.tflite",
    }  # fmt: skip
    (fp32,) = read_events(exported / "teacher_run", "latency")
    assert fp32["file"] == "exports/teacher-fp32.tflite"


def test_a_teacher_outside_of_its_run_is_measured_and_exported(
    exported, tmp_path, capsys
):
    run = tmp_path / "run"
    shutil.copytree(exported, run, symlinks=True)
    of_run = [str(run), "--arm", "teacher"]
    assert main(["evaluate", *of_run]) == 0
    result = last_json(capsys.readouterr().out)
    (before,) = events_of(run, "evaluation", "teacher")
    assert result["metrics"] == pytest.approx(before["metrics"], abs=1e-6)
    assert main(["export", *of_run, "--precision", "fp32"]) == 0
    *_, event = events_of(run, "export", "teacher")
    assert event["file"] == "exports/teacher/teacher-fp32.tflite"
    assert event["metrics"] == pytest.approx(before["metrics"], abs=1e-6)
    assert main(["export", *of_run, "--precision", "int8"]) == 2
    assert "teacher-int8.tflite" in capsys.readouterr().err
    own = [*of_run, "--precision", "int8", "--sequence-length", "8"]
    assert main(["export", *own, "--overwrite"]) == 0
    number = len(events_of(run, "export", "teacher"))
    command = ["export", str(run), "--precision", "fp32", "--overwrite"]
    assert main(command) == 0
    assert "already exists, from --arm teacher" in capsys.readouterr().out
    assert len(events_of(run, "export", "teacher")) == number


@pytest.mark.large
def test_a_teachers_file_is_made_again_if_it_changed(exported):
    command = ["export", str(exported), "--precision", "fp32", "--overwrite"]
    file = exported / "exports" / "teacher" / "teacher-int8.tflite"
    content = file.read_bytes()
    made = len(events_of(exported, "export", "teacher"))
    file.write_bytes(content[:-1])
    assert main([*command, "--no-teacher"]) == 0
    assert len(file.read_bytes()) < len(content)
    assert main(command) == 0
    assert file.read_bytes() == content
    assert len(events_of(exported, "export", "teacher")) == made + 1


@pytest.mark.large
def test_export_to_a_saved_model(exported, tmp_path):
    command = ["export", str(exported), "--format", "saved_model"]
    assert main([*command, "--output", str(tmp_path)]) == 0
    assert (tmp_path / "student-saved_model" / "saved_model.pb").is_file()


def test_verbs_that_only_read_accept_a_read_only_run(
    exported, tmp_path, capsys
):
    run, is_root = tmp_path / "disk" / "run", os.geteuid() == 0
    with contextlib.ExitStack() as stack:
        if is_root:  # who may write whatever the mode of a folder
            stack.enter_context(failing_disks.small_disk(run.parent, 80))
        shutil.copytree(exported, run)
        if is_root:
            stack.enter_context(failing_disks.read_only(run.parent))
        for folder in () if is_root else (run, run / "exports"):
            folder.chmod(0o555)
            stack.callback(folder.chmod, 0o755)
        with pytest.warns(UserWarning, match="Not logged in the run"):
            assert main(["evaluate", str(run)]) == 0
        file = run / "exports" / "student-fp32.tflite"
        quick = ["--runs", "1", "--warmup", "0"]
        with pytest.warns(UserWarning, match="Not logged in the run"):
            assert main(["benchmark", str(file), *quick]) == 0
        (result,) = last_json(capsys.readouterr().out)["results"]
        assert result["median_ms"] > 0
        assert main(["report", str(run), str(run)]) == 0
        assert f"{run} is read-only" in capsys.readouterr().out


def test_config_of_a_run_runs_again(finished_run, tmp_path, capsys):
    run = shutil.copytree(finished_run, tmp_path / "finished")
    command = ["distill", "tinybert", "--config", str(run / "config.json")]
    clash = [*command, "--teacher", "x", "--run-dir", str(tmp_path / "run")]
    assert main(clash) == 2
    assert "--teacher is not read beside --config" in capsys.readouterr().err
    # Same directory, same settings: it is finished.
    assert main([*command, "--run-dir", str(run)]) == 0
    assert "is finished" in capsys.readouterr().out
