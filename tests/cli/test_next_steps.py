"""What verbs say to do next: commands that work."""

import shlex

import pytest
from kit.adapter import command


def next_steps(told):
    lines = told.partition("Next:\n")[2].splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [one[1:] for one in words if one[:1] == ["kdkit"]]


@pytest.mark.large
def test_the_commands_work(tmp_path):
    quick = ["data.max_train_rows=32", "training.jit_compile=false"]
    quick += ["--epochs", "1"]
    first = ["train-teacher", "--smoke", "--run-dir", str(tmp_path / "teacher")]
    commands, ran = [first], []
    while commands:
        words = commands.pop(0)
        ran.append(words)
        is_quick = words[0] in ("train-teacher", "distill")
        told = command([*words, *(quick if is_quick else [])])
        assert told.status == 0, told
        new = next_steps(told.out)
        commands += [one for one in new if one not in [*commands, *ran]]
    verbs = {words[0] for words in ran}
    assert verbs == {
        "train-teacher",
        "distill",
        "export",
        "report",
        "benchmark",
    }
