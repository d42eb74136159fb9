"""A run's inputs: recorded, and compared when the run resumes or they open."""

import dataclasses
import json
import shutil

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.reporting import read_run
from kdkit.runs import smoke
from kdkit.runs.directory import (
    RunDirectory,
    open_run,
    read_config,
    write_json,
)
from kdkit.runs.events import Inputs
from kdkit.runs.inputs import (
    distillation_inputs,
    log_inputs,
    model_digest,
    require_same_inputs,
)
from kdkit.tasks import get_task
from kdkit.training import AugmentedSettings, UnlabeledSettings
from kdkit.training.distribution import ONE_DEVICE

pytestmark = pytest.mark.usefixtures("quick_runs")

TASK = get_task("sst2")


def write_split(root, split, texts):
    folder = root / "SST-2"
    folder.mkdir(exist_ok=True)
    lines = [f"{text}\t{len(text) % 2}" for text in texts]
    (folder / f"{split}.tsv").write_text(
        "\n".join(["sentence\tlabel", *lines]) + "\n"
    )


@pytest.fixture
def settings(tmp_path):
    """A run with rows to train on and to choose on, and no test split."""
    write_split(tmp_path, "train", ["fine", "dull"])
    write_split(tmp_path, "dev", ["so fine", "so dull"])
    whole = smoke.distillation(RECIPES["vanilla_kd"])
    data = dataclasses.replace(
        whole.data, task="sst2", data_dir=str(tmp_path), dev_split="dev"
    )
    return dataclasses.replace(whole, data=data, teacher="a_preset")


@pytest.fixture(params=["unlabeled", "augmented"])
def filtered(request, settings, tmp_path):
    """Likewise, with rows that exclude those of other splits."""
    file = tmp_path / "more.txt"
    file.write_text("a text\n")
    more = {
        "unlabeled": UnlabeledSettings((str(file),)),
        "augmented": AugmentedSettings(str(file)),
    }[request.param]
    return dataclasses.replace(settings, **{request.param: more})


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDirectory(tmp_path / "run")


def test_a_test_split_that_changed_is_named(filtered, run, tmp_path):
    write_split(tmp_path, "test", ["another text"])
    log_inputs(run, distillation_inputs(filtered, TASK))
    write_split(tmp_path, "test", ["a text"])
    with pytest.raises(UsageError, match="content of the test examples"):
        require_same_inputs(
            run, distillation_inputs(filtered, TASK), ONE_DEVICE
        )
    (tmp_path / "SST-2" / "test.tsv").unlink()
    with pytest.raises(UsageError, match="set of splits"):
        require_same_inputs(
            run, distillation_inputs(filtered, TASK), ONE_DEVICE
        )


def test_a_test_split_that_decides_no_rows_is_no_input(settings, run, tmp_path):
    inputs = distillation_inputs(settings, TASK)
    assert set(inputs) <= {"train", "dev", "teacher", "pretrained", "student"}
    write_split(tmp_path, "test", ["a text"])
    assert distillation_inputs(settings, TASK) == inputs


def test_a_run_that_trained_and_lost_its_inputs_does_not_go_on(settings, run):
    inputs = distillation_inputs(settings, TASK)
    require_same_inputs(run, inputs, ONE_DEVICE)  # nothing was begun
    folder = run.path / "checkpoints" / "student" / "fine_tuning"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    with pytest.raises(
        UsageError, match=r"metrics\.jsonl has lost the event 'inputs'"
    ):
        require_same_inputs(run, inputs, ONE_DEVICE)
    log_inputs(run, inputs)
    require_same_inputs(run, inputs, ONE_DEVICE)


def test_a_model_that_is_gone_is_not_compared(
    settings, run, tmp_path, monkeypatch
):
    """A finished run does not need it; in another one, loading fails."""
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    taught = dataclasses.replace(settings, teacher="model")
    log_inputs(run, distillation_inputs(taught, TASK))
    model.rename(tmp_path / "elsewhere")
    require_same_inputs(run, distillation_inputs(taught, TASK), ONE_DEVICE)
    (tmp_path / "elsewhere" / "config.json").write_text('{"a": 1}')
    (tmp_path / "elsewhere").rename(model)
    with pytest.raises(UsageError, match="content of the teacher has changed"):
        require_same_inputs(run, distillation_inputs(taught, TASK), ONE_DEVICE)


@pytest.fixture
def taught(finished_run, tmp_path):
    """A finished run whose teacher is in another run, and that run."""
    path, teacher = tmp_path / "taught", tmp_path / "teacher"
    shutil.copytree(finished_run, path)
    (path / "teacher_run").rename(teacher)
    config = json.loads((path / "config.json").read_text())
    write_json(path / "config.json", {**config, "teacher": str(teacher)})
    run = RunDirectory(path)
    (inputs,) = run.events(Inputs)
    run.filter_events(lambda event: not isinstance(event, Inputs))
    found = {**inputs.digests, "teacher": model_digest(str(teacher))}
    run.log(Inputs(digests=found))
    return run, teacher


def test_a_teacher_that_changed_is_not_opened_as_the_runs(taught, capsys):
    run, teacher = taught
    of_run = [str(run.path), "--arm", "teacher"]
    assert main(["evaluate", *of_run]) == 0
    assert read_run(run.path).teacher_run is not None
    weights = teacher / "teacher" / "model.weights.h5"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    for verb in ("evaluate", "export"):
        assert main([verb, *of_run]) == 2
        told = capsys.readouterr().err
        assert "the content of the teacher has changed" in told
    assert main(["export", str(run.path), "--precision", "fp32"]) == 0
    told = capsys.readouterr().out
    assert "was not exported in int8" in told
    assert "the content of the teacher has changed" in told
    found = read_run(run.path)
    assert found.teacher_run is None
    assert "has another model now" in found.remarks[-1]
    weights.write_bytes(content)
    assert main(["evaluate", *of_run]) == 0


def test_a_teacher_that_moved_continues(taught, tmp_path):
    run, teacher = taught
    moved = teacher.rename(tmp_path / "elsewhere")
    config = read_config(run.path)
    settings = {**config, "teacher": str(moved)}
    with open_run(run.path, settings):
        pass
    run.note_moved_models(settings)
    assert read_config(run.path) == settings
    assert read_run(run.path).teacher_run.run_dir == moved
    run.note_moved_models({**settings, "checkpoint_minutes": "none"})
    assert read_config(run.path) == settings
    with (
        pytest.raises(UsageError, match="made with other settings"),
        open_run(run.path, {**settings, "teacher": "a_preset"}),
    ):
        pass


def test_rows_of_a_run_that_changed_are_not_measured(taught, capsys):
    run, _ = taught
    (inputs,) = run.events(Inputs)
    run.filter_events(lambda event: not isinstance(event, Inputs))
    run.log(Inputs(digests={**inputs.digests, "dev": "0" * 16}))
    for verb in ("evaluate", "export"):
        assert main([verb, str(run.path)]) == 2
        told = capsys.readouterr().err
        assert "the content of the dev examples has changed" in told
    assert main(["evaluate", str(run.path), "--task", "sentiment"]) == 0
