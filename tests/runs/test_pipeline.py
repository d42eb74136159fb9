"""Chains of runs in Python: their steps, places, settings, and reuse."""

import dataclasses
import functools

import pytest

from kdkit import models
from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import smoke, task_parts
from kdkit.runs.pipeline import Pipeline
from kdkit.settings import override
from kdkit.training import (
    AugmentedSettings,
    CacheSettings,
    ModelSettings,
    distill,
)


def names_and_places(pipeline, folder):
    return [
        (step.name, str(step.place.relative_to(folder)))
        for step in pipeline.steps
    ]


@pytest.mark.parametrize("family", ["gpt2", "llama3", "mass"])
def test_four_steps_on_text(family, tmp_path):
    recipe = RECIPES["lightpaff"].for_families[family]
    pipeline = smoke.on_text(recipe, tmp_path / "run")
    assert names_and_places(pipeline, tmp_path) == [
        ("pretrained", "run/pretrained_run"),
        ("teacher", "run/teacher_run"),
        ("general", "run/general_run"),
        ("student", "run"),
    ]
    assert pipeline.given == {}
    pretrained, teacher, general, student = pipeline.steps
    assert teacher.settings.model.checkpoint == str(pretrained.place)
    assert general.settings.teacher == str(pretrained.place)
    assert student.settings.model.checkpoint == str(general.place)
    assert student.settings.teacher == str(teacher.place)
    moved = pipeline.moved(tmp_path / "other")
    assert names_and_places(moved, tmp_path) == [
        (name, place.replace("run", "other", 1))
        for name, place in names_and_places(pipeline, tmp_path)
    ]


def test_steps_of_a_distillation_on_a_task(tmp_path):
    settings = smoke.distillation(RECIPES["lightpaff"])
    settings = dataclasses.replace(
        settings,
        student=ModelSettings(checkpoint=str(tmp_path / "general")),
        general=smoke.PRETRAINING,
        augmented=AugmentedSettings(str(tmp_path / "augmented.tsv")),
    )
    assert names_and_places(Pipeline(settings, tmp_path / "run"), tmp_path) == [
        ("pretrained", "run/pretrained_run"),
        ("teacher", "run/teacher_run"),
        ("general", "general"),
        ("augmented", "augmented.tsv"),
        ("student", "run"),
    ]


def test_values_are_of_the_step_that_they_name(tmp_path):
    recipe = RECIPES["lightpaff"].for_families["gpt2"]
    pipeline = smoke.on_text(recipe, tmp_path).with_values(
        ["general.seed=4", "seed=3", "corpus.sequence_length=16"]
    )
    seeds = [step.settings.seed for step in pipeline.steps]
    assert seeds == [0, 0, 4, 3]
    shared = pipeline.with_shared_settings()
    assert [step.settings.seed for step in shared.steps] == [0, 0, 3, 3]
    lengths = [step.settings.corpus.sequence_length for step in shared.steps]
    assert lengths == [16] * 4
    with pytest.raises(UsageError, match="steps_before 'general'"):
        Pipeline(shared.steps[0].settings, tmp_path).with_values(
            ["general.seed=4"]
        )


def counted(monkeypatch, module, names):
    """A dict that counts the calls of functions in a module."""
    counts = dict.fromkeys(names, 0)

    def count(name, make, *arguments, **more):
        counts[name] += 1
        return make(*arguments, **more)

    for name in names:
        make = getattr(module, name)
        monkeypatch.setattr(module, name, functools.partial(count, name, make))
    return counts


@pytest.fixture
def cached(finished_run, smoke_settings, tmp_path):
    """Settings of a distillation from a teacher with a cache."""
    return dataclasses.replace(
        override(smoke_settings, ["stages.0.epochs=1", "stages.1.epochs=1"]),
        teacher=str(finished_run / "teacher_run"),
        cache=CacheSettings(str(tmp_path / "cache")),
        control=(),
    )


OF_TASKS = (
    "TeacherCaches", "load_rows", "load_teachers", "make_model", "open_task",
)  # fmt: skip


def test_a_distillation_builds_each_part_once(cached, tmp_path, monkeypatch):
    counts = counted(monkeypatch, task_parts, OF_TASKS)
    loaded = counted(monkeypatch, models, ["load_classifier", "student"])
    distill(cached, tmp_path / "run")
    assert counts == dict.fromkeys(OF_TASKS, 1)
    assert loaded == {"load_classifier": 1, "student": 1}


def test_a_chain_on_text_that_would_be_ruined_writes_nothing(
    text_files, capsys
):
    words = ["distill", "lightpaff", "--model", "gpt2", "--run-dir", "run"]
    words += ["--decoder", "gpt2_medium_en", "--vocabulary-size", "300"]
    words += ["--corpus", "general.txt", "--task-text", "task.txt"]
    assert main([*words, "--task-held-out", "task.txt"]) == 1
    assert "texts kept apart" in capsys.readouterr().err
    assert not (text_files / "run").exists()
