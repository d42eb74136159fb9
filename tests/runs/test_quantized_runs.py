"""Runs of kdkit distill --quantize, and their students."""

import dataclasses

import keras_hub
import numpy as np
import pytest
from kit.helpers import read_events, stopped_after_save

from kdkit.cli.distill import distillation_pipeline
from kdkit.cli.main import make_verb_parser
from kdkit.models import load_classifier
from kdkit.quantization import read_quantization
from kdkit.recipes import RECIPES
from kdkit.recipes.quantization import quantization_stage
from kdkit.recipes.stages import same_number_of_updates
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import distill
from kdkit.training.task_data import make_forward, predict_logits

SMALL = ("data.max_train_rows=32", "teacher.data.max_train_rows=32")


def resolved(*words):
    parser = make_verb_parser("distill")
    options = parser.parse_args(["pkd", "--smoke", "--run-dir", "RUN", *words])
    return distillation_pipeline(options).settings


@pytest.fixture(scope="module")
def settings():
    found = override(resolved("--quantize", "static_int8"), SMALL)
    return dataclasses.replace(found, stages=found.stages[1:])


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("quantized") / "run"
    distill(settings, path)
    return path


def test_the_stage_follows_those_of_the_recipe():
    stages = resolved(
        "--quantize", "int4", "--set", "stages.quantization.epochs=2"
    ).stages
    assert [stage.name for stage in stages] == ["fine_tuning", "quantization"]
    assert stages[-1].quantize == "int4"
    assert stages[-1].epochs == 2
    assert [one.tap for one in stages[-1].objectives] == [
        "logits",
        "cls_states",
    ]
    control = same_number_of_updates(stages)
    assert [(one.name, one.quantize) for one in control] == [
        ("fine_tuning", None),
        ("quantization", "int4"),
    ]
    assert not any(stage.objectives for stage in control)


def test_a_task_of_another_kind_has_its_own_soft_labels():
    task = get_task("stsb")
    stages = RECIPES["vanilla_kd"].stages_for(task)
    stage = quantization_stage("int4", task, stages)
    assert [one.name for one in stage.objectives] == ["logit_mse"]


def test_states_are_compared_that_the_recipe_compares_without_projection():
    task = get_task("sst2")
    names = {
        name: [
            one.name
            for one in quantization_stage(
                "int4", task, RECIPES[name].stages_for(task)
            ).objectives
        ]
        for name in ("pkd", "tinybert")
    }
    assert names == {
        "pkd": ["soft_cross_entropy", "patience_mse"],
        "tinybert": ["soft_cross_entropy", "attention_mse"],
    }


def test_without_a_teacher_in_the_recipe_the_student_learns_from_labels():
    stage = quantization_stage("int4", get_task("sst2"), ())
    assert not stage.objectives
    assert stage.label_weight == 1


def test_a_student_rounds_again_as_its_run_measured_it(run):
    (rounding,) = run.glob("student/quantization.json")
    loaded = load_classifier(run, 2)
    task = get_task("sentiment")
    rows = task.encode(task.load("dev", None), loaded.tokenizer, 32)
    exact = predict_logits(make_forward(loaded.model), rows)
    read_quantization(rounding).apply(loaded.model)
    rounded = predict_logits(make_forward(loaded.model), rows)
    assert (rounded != exact).any()
    (measured,) = [
        event
        for event in read_events(run, "evaluation")
        if event["arm"] == "student"
    ]
    assert measured["stage"] == "quantization"
    assert measured["metrics"] == pytest.approx(
        task.compute_metrics(rows.labels, rounded)
    )
    plain = keras_hub.models.TextClassifier.from_preset(str(run / "student"))
    for one, other in zip(
        plain.get_weights(), loaded.model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.large
def test_a_run_stopped_while_it_rounds_ends_the_same_bit_for_bit(
    settings, run, tmp_path
):
    stopped = dataclasses.replace(settings, teacher=str(run / "teacher_run"))
    whole = tmp_path / "whole"
    distill(stopped, whole)
    path = tmp_path / "stopped"
    with stopped_after_save(1):
        distill(override(stopped, ["checkpoint_minutes=0"]), path)
    distill(stopped, path)
    events = [
        [
            {k: v for k, v in event.items() if k not in ("time", "seconds")}
            for event in read_events(one, "epoch")
        ]
        for one in (whole, path)
    ]
    assert events[0] == events[1]
    weights = (
        load_classifier(one, 2).model.get_weights() for one in (whole, path)
    )
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)
    files = [one / "student" / "quantization.json" for one in (whole, path)]
    assert files[0].read_text() == files[1].read_text()
