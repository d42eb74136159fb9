"""Runs whose student learned nothing that affects its outputs."""

import argparse
import dataclasses

import numpy as np
import pytest
from kit.helpers import read_events

from kdkit import tasks
from kdkit.cli import export as exporting
from kdkit.cli.main import main
from kdkit.cli.models import Opened
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import distill


@pytest.fixture(scope="module")
def headless(finished_run, tmp_path_factory):
    """A run of TinyBERT's first stage alone."""
    settings = override(
        smoke.distillation(RECIPES["tinybert"]), ["data.max_train_rows=32"]
    )
    settings = dataclasses.replace(
        settings,
        teacher=str(finished_run / "teacher_run"),
        stages=settings.stages[:1],
    )
    path = tmp_path_factory.mktemp("headless") / "run"
    distill(settings, path)
    return path


@pytest.mark.large
def test_a_head_that_no_stage_trains_is_told(headless, capsys):
    (finished,) = read_events(headless, "run_finished")
    (layer,) = finished["best"]["student"]["untrained_layers"]
    assert "logits" in layer
    assert main(["report", str(headless)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"The student's head was never trained ({layer})" in said
    command = ["export", str(headless), "--precision", "fp32", "--no-teacher"]
    assert main(command) == 0
    assert f"The head was never trained ({layer})" in capsys.readouterr().out


def test_files_that_give_one_answer_have_collapsed(monkeypatch):
    def file(batch):
        return np.tile([1.0, 0.0], (len(batch["x"]), 1))

    task = tasks.get_task("sentiment")
    monkeypatch.setattr(
        exporting,
        "predict_logits",
        lambda predict, encoded: predict({"x": encoded.targets}),
    )
    opened = Opened(task, None, None, None, None, 8, lambda *_: None)
    labels = np.arange(120) % 2
    encoded = argparse.Namespace(targets=labels)
    measured = exporting._measured(opened, file, encoded)
    assert measured == {
        "metrics": {"accuracy": 0.5},
        "collapsed": "gives every example the same answer",
    }
