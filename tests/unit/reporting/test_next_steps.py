"""What verbs say to do next: commands that work."""

import shlex
import shutil

import pytest

from kdkit.cli.main import main
from kdkit.cli.next_steps import (
    after_student,
    after_teacher,
)

pytestmark = pytest.mark.usefixtures("quick_runs")


def test_after_a_student_come_files_and_a_page(finished_run):
    run = str(finished_run)
    steps = [words for words, _ in after_student(run)]
    assert steps == [["export", run], ["report", run]]


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
