"""The exit status of every verb: of right command lines and of mistakes."""

import pytest
from kit import adapter
from kit import goldens as comparing_goldens

VERBS = (
    "list", "show", "demo", "train-teacher", "pretrain", "augment", "cache",
    "distill", "doctor", "sweep", "ablate", "evaluate", "export", "benchmark",
    "push", "generate", "report",
)  # fmt: skip
RIGHT = ("--help", "--version", "list", "show pkd", "show tinybert --task cola")
SMOKE = "--smoke --run-dir no_run"
MISTAKES = (
    "",
    "nonsense",
    "list --nonsense",
    "show",
    "show nonsense",
    "show pkd --task nonsense",
    "show tinybert --parity nonsense",
    "demo --nonsense",
    "train-teacher --run-dir no_run",
    "train-teacher --smoke",
    "train-teacher --task sst2 --model nothing --run-dir no_run",
    f"train-teacher {SMOKE} --set stages.0.epochs=three",
    f"train-teacher {SMOKE} --set stages.0.epochs=-1",
    "pretrain --run-dir no_run",
    "pretrain --corpus nothing --model nothing --run-dir no_run",
    f"pretrain {SMOKE} --set nonsense=1",
    "augment --task sst2",
    "augment --task nonsense --data-dir data --model data --output no_run.tsv",
    "augment --task sst2 --data-dir data --model nothing --output no_run.tsv",
    "cache pkd",
    "cache nonsense --task sst2 --data-dir data --teacher nothing --cache no",
    "distill",
    "distill nonsense " + SMOKE,
    "distill pkd",
    "distill pkd --run-dir no_run",
    f"distill pkd {SMOKE} --set nonsense=1",
    f"distill pkd {SMOKE} --set seed=1.5",
    f"distill pkd {SMOKE} --seed nonsense",
    f"distill pkd {SMOKE} --parity nonsense",
    f"distill pkd {SMOKE} --nonsense",
    f"distill pkd {SMOKE} --devices 2",
    "distill pkd --task sst2 --teacher nothing --run-dir no_run",
    "distill pkd --task sst2 --data-dir nothing --teacher data --run-dir no",
    "distill lightpaff --model nonsense --smoke --run-dir no_run",
    "distill --config nothing.json --run-dir no_run",
    "doctor pkd",
    "doctor nonsense --smoke",
    "sweep pkd --run-dir no_run",
    "ablate nonsense --run-dir no_run",
    "ablate nonsense --over layer_map --run-dir no_run",
    "evaluate",
    "evaluate nothing",
    "export",
    "export nothing",
    "export data --precision fp8",
    "benchmark",
    "benchmark nothing.tflite",
    "benchmark vocabulary.txt",
    "generate",
    "generate nothing --prompt a",
    "report",
    "report nothing",
)


def status_of(workspace, monkeypatch, line):
    monkeypatch.chdir(workspace.path)
    before = sorted(workspace.path.iterdir())
    answer = adapter.command(line.split())
    assert sorted(workspace.path.iterdir()) == before
    return answer.status


@pytest.mark.parametrize("line", [*RIGHT, *(f"{one} --help" for one in VERBS)])
def test_right_command_lines_exit_with_0(line, workspace, monkeypatch):
    status = status_of(workspace, monkeypatch, line)
    comparing_goldens.check("exits", line, status)


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_exit_as_before(line, workspace, monkeypatch):
    status = status_of(workspace, monkeypatch, line)
    comparing_goldens.check("exits", line, status)
