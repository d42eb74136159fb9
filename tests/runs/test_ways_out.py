"""Errors name the received value and a fix."""

import argparse
import dataclasses

import numpy as np
import pytest

from kdkit.cli import choosing, resolving
from kdkit.cli.main import make_verb_parser
from kdkit.cli.models import locate
from kdkit.errors import RunError, UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.runs.directory import open_run, write_json
from kdkit.runs.sweep import Axis
from kdkit.settings import to_dict
from kdkit.tasks.metrics import require_finite_logits
from kdkit.training.sources import token_metrics


def teacher_with_objectives(_):
    stages = RECIPES["pkd"].stages
    dataclasses.replace(smoke.TEACHER, stages=stages)


def config_of_another_recipe(folder):
    file = folder / "config.json"
    write_json(file, to_dict(smoke.distillation(RECIPES["pkd"])))
    parser = make_verb_parser("distill")
    words = ["tinybert", "--config", str(file), "--run-dir", str(folder)]
    resolving.distill_settings(parser.parse_args(words))


def run_directory_that_is_a_file(folder):
    (folder / "run").write_text("")
    with open_run(folder / "run", {}):
        pass


def file_that_is_not_there(folder):
    locate(str(folder / "student.tflite"))


def setting_without_values(_):
    Axis("seed", ())


def decoder_as_teacher_of_encoders(_):
    choosing.recipe_on_text(
        RECIPES["tinybert"], argparse.Namespace(teacher="gpt2", parity=None)
    )


def logits_that_are_not_finite(_):
    require_finite_logits(np.full((2, 3), np.nan), 2, 3)


def loss_that_is_not_finite(_):
    tokens = np.zeros((1, 2), "int32")
    batch = (tokens, tokens, np.ones((1, 2), "float32"))
    token_metrics(lambda x: np.full((1, 2, 3), np.nan, "float32"), [batch])


@pytest.mark.parametrize(
    ("mistake", "texts"),
    [
        (teacher_with_objectives, ("in fine_tuning", "kdkit distill")),
        (config_of_another_recipe, ("'pkd'", "'tinybert'", "Name pkd")),
        (run_directory_that_is_a_file, ("run is a file", "--run-dir")),
        (file_that_is_not_there, ("student.tflite", "Expected a run")),
        (setting_without_values, ("seed", "such as 1,2")),
        (decoder_as_teacher_of_encoders, ("a GPT-2", "Use lightpaff")),
        (logits_that_are_not_finite, ("2 of 2", "smaller learning_rate")),
        (loss_that_is_not_finite, ("held-out", "smaller learning_rate")),
    ],
)
def test_a_mistake_is_told_with_a_way_out(
    mistake, texts, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        choosing, "_family_of_teacher", lambda place: ("GPT-2", "gpt2")
    )
    with pytest.raises((UsageError, RunError)) as raised:
        mistake(tmp_path)
    for text in texts:
        assert text in str(raised.value)
