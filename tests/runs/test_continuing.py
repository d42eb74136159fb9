"""What a run goes on with, and is measured with: its own settings and inputs.

Runs here are copies of shared ones, with copies of their inputs.
"""

import json
import shutil

import pytest
from kit.adapter import command
from kit.helpers import change_events, eager_steps, read_events
from kit.runs import RUNS

from kdkit.reporting import read_run

INPUTS = ("data", "teacher", "encoder", "corpus.txt", "augmented.tsv")
FINISHED = "nothing to do"


class Copy:
    """A copy of a shared run and of its inputs, and its command line."""

    def __init__(self, workspace, name, folder):
        self.folder, self.run = folder, workspace.copy(name, folder / "run")
        self.words = workspace.words(RUNS[name].words)
        file = self.run / "config.json"
        config = file.read_text()
        for part in INPUTS:
            old, new = workspace.path / part, folder / part
            if old.is_dir():
                shutil.copytree(old, new)
            elif old.exists():
                shutil.copy(old, new)
            config = config.replace(f'"{old}"', f'"{new}"')
            self.words = [
                str(new) if word == str(old) else word for word in self.words
            ]
        file.write_text(config)

    def again(self, *words):
        """Gives the command that made the run."""
        return command([*self.words, *words, "--run-dir", self.run])

    def rows(self, split):
        return self.folder / "data" / "SST-2" / f"{split}.tsv"


@pytest.fixture
def copy(request, workspace, tmp_path):
    return Copy(workspace, getattr(request, "param", "pkd"), tmp_path)


def flip_a_label(file):
    """The first row's label is the other one."""
    head, row, *rows = file.read_text().splitlines()
    text, label = row.split("\t")
    file.write_text("\n".join([head, f"{text}\t{1 - int(label)}", *rows, ""]))


def change_a_byte(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


TRAIN, DEV = "data/SST-2/train.tsv", "data/SST-2/dev.tsv"


@pytest.mark.parametrize(
    ("copy", "file", "change", "named"),
    [
        ("pkd", TRAIN, flip_a_label, "training examples"),
        ("pkd", DEV, flip_a_label, "dev examples"),
        ("pkd", "teacher/model.weights.h5", change_a_byte, "teacher"),
        ("fine_tuned", TRAIN, flip_a_label, "training examples"),
        ("fine_tuned", "encoder/model.weights.h5", change_a_byte, "checkpoint"),
        ("pretrained", "corpus.txt", change_a_byte, "corpus"),
        ("augmented", "augmented.tsv", change_a_byte, "augmented examples"),
    ],
    indirect=["copy"],
)
def test_a_run_does_not_go_on_with_other_inputs(copy, file, change, named):
    answer = copy.again()
    assert (answer.status, FINISHED in answer.out) == (0, True), answer
    change(copy.folder / file)
    answer = copy.again()
    assert answer.status == 2
    assert named in answer.err


@pytest.mark.parametrize("copy", ["pkd", "augmented"], indirect=True)
def test_a_test_split_counts_where_it_decides_which_rows_train(copy):
    copy.rows("test").write_text("sentence\tlabel\nanother text\t1\n")
    answer = copy.again()
    if "--augment" in copy.words:
        assert answer.status == 2
        assert "set of splits" in answer.err
    else:
        assert FINISHED in answer.out


def test_a_finished_run_needs_neither_data_nor_options(copy):
    words = ("distill", copy.run / "config.json", "--run-dir", copy.run)
    assert FINISHED in command(words).out
    other = command([*words, "--teacher", "x"])
    assert (other.status, "teacher" in other.err) == (2, True)
    shutil.rmtree(copy.folder / "data")
    assert FINISHED in copy.again().out


def test_other_settings_are_refused_by_name(copy):
    rate = ("--set", "stages.fine_tuning.learning_rate=0.5")
    answer = copy.again("--seed", "1", *rate)
    assert answer.status == 2
    assert "seed: 0 -> 1" in answer.err
    assert "stages.fine_tuning.learning_rate: 0.002 -> 0.5" in answer.err


def test_a_run_that_lost_its_inputs_does_not_go_on(copy):
    log = copy.run / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text(
        "".join(
            line
            for line in lines
            if json.loads(line)["event"] not in ("inputs", "run_finished")
        )
    )
    answer = copy.again()
    assert answer.status == 2
    assert "inputs" in answer.err


def test_a_teacher_that_moved_is_the_runs(copy):
    moved = (copy.folder / "teacher").rename(copy.folder / "elsewhere")
    copy.words[copy.words.index("--teacher") + 1] = str(moved)
    assert FINISHED in copy.again().out
    teacher = ("evaluate", copy.run, "--arm", "teacher")
    assert command(teacher).status == 0


def test_a_teacher_that_changed_is_not_the_runs(copy):
    change_a_byte(copy.folder / "teacher" / "model.weights.h5")
    for verb in ("evaluate", "export"):
        answer = command([verb, copy.run, "--arm", "teacher"])
        assert answer.status == 2
        assert "teacher has changed" in answer.err


def test_a_teachers_run_that_changed_is_not_reported(copy, workspace):
    """A report shows the numbers of a teacher's own run."""
    teacher = workspace.copy("fine_tuned", copy.folder / "teacher_run")
    file = copy.run / "config.json"
    old = str(copy.folder / "teacher")
    file.write_text(file.read_text().replace(f'"{old}"', f'"{teacher}"'))
    records = read_run(copy.run)
    assert records.teacher_run is None
    assert "another model" in records.remarks[-1]


def test_rows_that_changed_are_not_measured(copy):
    def of_other_rows(event):
        if event["event"] == "inputs":
            event["digests"]["dev"] = "0" * 16

    change_events(copy.run, of_other_rows)
    for verb in ("evaluate", "export"):
        answer = command([verb, copy.run])
        assert answer.status == 2
        assert "dev examples has changed" in answer.err
    data = ("--task", "sst2", "--data-dir", copy.folder / "data")
    assert command(["evaluate", copy.run, *data]).status == 0


def test_a_teacher_without_a_head_is_refused(workspace, tmp_path):
    words = ["@encoder" if w == "@teacher" else w for w in RUNS["pkd"].words]
    run = tmp_path / "run"
    answer = command(workspace.words([*words, "--run-dir", run]))
    assert answer.status == 2
    assert "kdkit train-teacher" in answer.err
    assert not run.exists()


def test_a_loss_that_is_not_finite_stops_the_run_by_name(workspace, tmp_path):
    words = (*RUNS["fine_tuned"].words, "--run-dir", tmp_path / "run")
    rate = (
        *("--set", "stages.fine_tuning.learning_rate=1e30"),
        *("--set", "stages.fine_tuning.schedule=constant"),
    )
    with eager_steps():
        answer = command(workspace.words([*words, *rate]))
    assert answer.status == 1
    assert "'fine_tuning' at step" in answer.err
    assert not read_events(tmp_path / "run", "run_finished")
