"""One module of a user's own registers all five kinds of things at once."""

import json
import sys
import types

import numpy as np
import pytest
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    batch,
    python_blocks,
    read_events,
)

import kdkit
from kdkit import export, models, recipes
from kdkit.cli.main import main
from kdkit.export import exporters
from kdkit.losses import base
from kdkit.models.families import family
from kdkit.tasks import registry

REGISTRIES = (
    base._LOSSES,
    recipes.RECIPES,
    registry.TASKS,
    family._ENCODERS,
    exporters._EXPORTERS,
)


@pytest.fixture(scope="module")
def user():
    """The names of the module on the page, which are forgotten afterwards."""
    before = [dict(names) for names in REGISTRIES]
    (text,) = [text for text in python_blocks("extending") if "OwnFile" in text]
    module = types.ModuleType("my_kdkit")
    sys.modules["my_kdkit"] = module  # Keras imports classes from there
    exec(text, module.__dict__)
    yield module
    del sys.modules["my_kdkit"]
    for names, earlier in zip(REGISTRIES, before, strict=True):
        names.clear()
        names.update(earlier)
    family._by_class.cache_clear()


@pytest.fixture(scope="module")
def own_run(user, tmp_path_factory):
    """A run of the user's recipe and loss."""
    path = tmp_path_factory.mktemp("own") / "run"
    words = ["data.max_train_rows=32", "--run-dir", str(path)]
    assert main(["distill", "own_recipe", "--smoke", *words]) == 0
    return path


def test_the_command_line_lists_them(user, capsys):
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert "own_recipe" in listed
    assert "own_task" in listed
    assert main(["show", "own_recipe", "--task", "own_task"]) == 0
    assert "hidden_state_huber" in capsys.readouterr().out


def test_a_recipe_runs_with_its_loss(own_run):
    stages = [event["stage"] for event in read_events(own_run, "epoch")]
    assert stages == ["states", "logits"]
    config = json.loads((own_run / "config.json").read_text())
    (objective,) = config["stages"]["states"]["objectives"].values()
    assert objective["loss"] == {"name": "hidden_state_huber", "delta": 1.0}


@pytest.mark.large
def test_a_run_is_exported_and_measured_in_the_format(own_run, capsys):
    run = str(own_run)
    assert main(["export", run, "--format", "own_format"]) == 0
    (event,) = read_events(own_run, "export")
    assert event["title"] == "Own format"
    assert event["max_abs_difference"] < 1e-5
    file = str(own_run / "exports" / "student-fp32.own")
    assert main(["evaluate", file, "--task", "sentiment"]) == 0
    assert '"split": "dev"' in capsys.readouterr().out
    report = export.measure_latency(file, sequence_length=8, warmup=0, runs=1)
    assert report.runs == 1


@pytest.mark.large
def test_a_family_is_trained_with_the_loss(user):
    sizes = {
        "family": "own_bert",
        "num_layers": 1,
        "hidden_dim": 8,
        "num_heads": 2,
        "intermediate_dim": 16,
        "vocabulary_size": VOCABULARY_SIZE,
        "max_sequence_length": LENGTH,
    }
    teacher, student = (models.student(sizes, num_classes=2) for _ in range(2))
    assert type(student.backbone) is user.OwnBackbone
    objective = kdkit.Objective(user.HiddenStateHuber(), tap="hidden_states")
    distiller = kdkit.Distiller(teacher, student, [objective])
    distiller.compile("adam")
    logs = distiller.train_on_batch(batch(), return_dict=True)
    assert 0 < logs["loss"] < np.inf
