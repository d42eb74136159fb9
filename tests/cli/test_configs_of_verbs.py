"""`--config` of a run of another command: which commands accept it."""

import dataclasses
import itertools
import json

import pytest

from kdkit.cli.main import main
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.runs.settings import PRETRAINED
from kdkit.settings import to_dict
from kdkit.training import ModelSettings

RUNS = {
    "train-teacher": smoke.TEACHER,
    "pretrain": smoke.PRETRAINING,
    "distill": smoke.distillation(RECIPES["pkd"]),
}


@pytest.fixture
def config(tmp_path):
    """Writes settings into a file; returns its path."""

    def write(settings):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(settings))
        return str(file)

    return write


def refused(capsys, *words):
    """Returns the error for an invalid command."""
    assert main([*words]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "made_by"), list(itertools.permutations(RUNS, 2))
)
def test_settings_of_another_verb_name_the_verb_that_takes_them(
    verb, made_by, config, tmp_path, capsys
):
    file, run = config(to_dict(RUNS[made_by])), tmp_path / "run"
    told = refused(capsys, verb, "--config", file, "--run-dir", str(run))
    assert f"holds a run of kdkit {made_by}. Expected one of" in told
    assert not run.exists()


def test_a_teacher_within_a_run_begins_with_the_encoder_beside_it(
    tmp_path, capsys
):
    settings = dataclasses.replace(
        smoke.TEACHER, model=ModelSettings(checkpoint=PRETRAINED)
    )
    teacher_run = tmp_path / "run" / "teacher_run"
    teacher_run.mkdir(parents=True)
    file = teacher_run / "config.json"
    file.write_text(json.dumps(to_dict(settings)))
    words = ["train-teacher", "--run-dir", str(tmp_path / "again"), "--config"]
    for config in (file, teacher_run):
        told = refused(capsys, *words, str(config))
        assert "run/pretrained_run" in told
