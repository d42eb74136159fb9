"""A mistyped path is the first thing that a verb reports."""

import pytest

from kdkit.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "teacher2").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["distill", "pkd", "--task", "sst2", "--teacher", "runs/techer2"],
            ["runs/techer2 does not exist. Did you mean runs/teacher2?"],
        ),
        (
            ["distill", "tinybert", "--task", "what", "--teacher", "runs/x/y",
             "--data-dir", "glue", "--corpus", "a.txt"],
            [
                "--teacher: runs/x/y does not exist.",
                "--data-dir: glue does not exist. Check the path.",
                "--corpus: a.txt does not exist.",
            ],
        ),
        (["evaluate", "runs/teacher"], ["Did you mean runs/teacher2?"]),
        (["export", "student.keras"], ["student.keras does not exist"]),
        (["benchmark", "runs/a.tflite"], ["runs/a.tflite does not exist"]),
        (["report", "runs/teacher1"], ["Did you mean runs/teacher2?"]),
    ],
    ids=lambda value: value[0] if value[0].islower() else "lines",
)  # fmt: skip
def test_missing_paths_come_before_other_advice(
    arguments, lines, folder, capsys
):
    if arguments[0] == "distill":
        arguments = [*arguments, "--run-dir", "run"]
    assert main(arguments) == 2
    told = capsys.readouterr().err
    for line in lines:
        assert line in told
    assert "--pretrained" not in told
    assert not (folder / "run").exists()
