"""Chains of runs in Python: their steps, places, settings, and reuse."""

import dataclasses

import pytest

from kdkit.cli.main import main
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.runs.pipeline import Pipeline
from kdkit.training import (
    AugmentedSettings,
    ModelSettings,
)

pytestmark = pytest.mark.usefixtures("quick_runs")


def test_steps_of_a_distillation_on_a_task(tmp_path):
    settings = smoke.distillation(RECIPES["lightpaff"])
    settings = dataclasses.replace(
        settings,
        student=ModelSettings(checkpoint=str(tmp_path / "general")),
        general=smoke.PRETRAINING,
        augmented=AugmentedSettings(str(tmp_path / "augmented.tsv")),
    )
    assert [
        (step.name, str(step.place.relative_to(tmp_path)))
        for step in Pipeline(settings, tmp_path / "run").steps
    ] == [
        ("pretrained", "run/pretrained_run"),
        ("teacher", "run/teacher_run"),
        ("general", "general"),
        ("augmented", "augmented.tsv"),
        ("student", "run"),
    ]


def test_a_chain_on_text_that_would_be_ruined_writes_nothing(
    text_files, capsys
):
    words = ["distill", "lightpaff", "--model", "gpt2", "--run-dir", "run"]
    words += ["--decoder", "gpt2_medium_en", "--vocabulary-size", "300"]
    words += ["--corpus", "general.txt", "--task-text", "task.txt"]
    assert main([*words, "--task-held-out", "task.txt"]) == 1
    assert "texts kept apart" in capsys.readouterr().err
    assert not (text_files / "run").exists()
