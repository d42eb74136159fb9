"""Runs on every kind of task: teacher, student, evaluation, export."""

import json

import keras_hub
import numpy as np
import pytest
from kit.adapter import command
from kit.helpers import large_except, read_events
from kit.run_checks import file_of
from kit.tasks import WORDS, WRITERS, write_encoder

from kdkit import models
from kdkit.config.data import TaskData
from kdkit.config.model import Checkpoint, Layers, Sizes
from kdkit.config.runs import TaskConfig, Training
from kdkit.recipes import RECIPES, Stage
from kdkit.reporting import read_run, render_report
from kdkit.runs.run import run
from kdkit.tasks import get_task

LENGTH = 16
PLAIN = Training(jit_compile=False)


def stage(**fields):
    return Stage("fine_tuning", 1, 1e-3, batch_size=8, **fields)


def taught(root, task, model):
    """The data of a teacher's run; its few sentences come again in dev."""
    own = TaskData(
        task=task.name,
        data_dir=str(root),
        sequence_length=LENGTH,
        num_buckets=1,
    )
    fine_tuning = TaskConfig(
        recipe="fine_tuning",
        data=own,
        student=model,
        stages=(stage(hard_label_weight=1.0),),
        training=PLAIN,
    )
    run(fine_tuning, root / "teacher", force=True)
    return own


@pytest.fixture(scope="module", params=large_except(WRITERS, "conll"))
def runs(request, tmp_path_factory):
    """A teacher's run and a distillation, of one epoch each."""
    root = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](root)
    task = get_task(request.param).for_data(root)
    vocabulary = task.kind.vocabulary
    write_encoder(root / "encoder", *([vocabulary] if vocabulary else []))
    encoder = Checkpoint(checkpoint=str(root / "encoder"))
    own = taught(root, task, encoder)
    intermediate, _ = RECIPES["tinybert"].stages_for(task)
    (pkd,) = RECIPES["pkd"].stages_for(task)
    objectives = (*intermediate.objectives, *pkd.objectives)
    distillation = TaskConfig(
        recipe="pkd",
        data=own,
        teacher=(str(root / "teacher"),),
        # The other way round, so that there is something to learn.
        student=Layers(copy_from="teacher", layers=(2, 1)),
        stages=(
            stage(
                soft_label_weight=pkd.soft_label_weight, objectives=objectives
            ),
        ),
        training=PLAIN,
    )
    run(distillation, root / "run", force=True)
    return root, task


def test_every_objective_has_a_value_and_the_metrics_are_the_tasks(runs):
    root, task = runs
    (epoch,) = read_events(root / "run", "epoch")
    objectives = {
        name: value
        for name, value in epoch["logs"].items()
        if name.endswith(("mse", "entropy"))
    }
    assert len(objectives) == 8
    for name, value in objectives.items():  # less the teacher's entropy
        assert value > (-1e-4 if name.endswith("entropy") else 0), objectives
    *_, evaluation = read_events(root / "run", "evaluation")
    assert set(evaluation["metrics"]) == set(task.metrics)
    assert evaluation["agreement"]["kl_divergence"] >= 0
    records = read_run(root / "run")
    assert set(records.predictions) == {"teacher", "student"}
    assert "Right and wrong answers" in render_report([records])


def test_evaluate_prints_what_the_run_measured(runs):
    root, _ = runs
    answer = command(["evaluate", root / "run"])
    printed = json.loads(answer.out.splitlines()[-1])
    *_, evaluation = read_events(root / "run", "evaluation")
    assert printed["metrics"] == pytest.approx(evaluation["metrics"])
    assert printed["examples"] == evaluation["examples"]


def test_exported_files_do_what_the_student_does(runs):
    root, _ = runs
    words = ["export", root / "run", "--precision", "fp32", "int8"]
    assert command(words).status == 0
    *_, evaluation = read_events(root / "run", "evaluation")
    fp32, int8 = read_events(root / "run", "export")
    assert fp32["max_abs_difference"] <= 1e-4
    assert fp32["metrics"] == pytest.approx(evaluation["metrics"])
    assert set(int8["metrics"]) == set(fp32["metrics"])
    file = file_of(root / "run" / "exports", "fp32")
    assert command(["benchmark", file, "--runs", "2"]).status == 0


def test_a_model_with_random_weights_reads_the_characters_of_its_data(tmp_path):
    WRITERS["polyphone"](tmp_path)
    sizes = Sizes(
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=16,
        max_sequence_length=32,
        dropout=0.0,
    )
    taught(tmp_path, get_task("polyphone").for_data(tmp_path), sizes)
    preset = tmp_path / "teacher" / "teacher"
    backbone = keras_hub.models.Backbone.from_preset(str(preset))
    characters = get_task("polyphone").for_data(tmp_path).kind.vocabulary
    assert backbone.vocabulary_size == len(characters)
    labels = json.loads((preset / "labels.json").read_text())
    assert labels["candidates"]["好"] == ["hao3"]


def write_mnli(root):
    folder = root / "MNLI"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for stem in ("train", "dev_matched", "dev_mismatched"):
        lines = ["sentence1\tsentence2\tgold_label"]
        for label in ("entailment", "neutral", "contradiction") * 4:
            words = generator.choice(WORDS, 4)
            lines.append(f"{' '.join(words[:2])}\t{words[3]}\t{label}")
        (folder / f"{stem}.tsv").write_text("\n".join(lines))


@pytest.mark.large
def test_mnli_is_chosen_on_matched_and_measured_on_mismatched(tmp_path):
    write_mnli(tmp_path)
    write_encoder(tmp_path / "encoder")
    encoder = Checkpoint(checkpoint=str(tmp_path / "encoder"))
    task = get_task("mnli")
    taught(tmp_path, task, encoder)
    place = tmp_path / "run"
    words = (
        *("distill", "vanilla_kd", "--task", "mnli", "--data-dir", tmp_path),
        *("--teacher", tmp_path / "teacher", "--num-layers", "1", "--force"),
        *("--epochs", "1", "--max-length", LENGTH, "--run-dir", place),
    )
    assert command(words).status == 0
    measured = read_events(place, "evaluation")
    splits = ("dev", "dev_mismatched")
    assert [(event["arm"], event["split"]) for event in measured] == [
        (arm, split) for arm in ("teacher", "student") for split in splits
    ]
    (finished,) = read_events(place, "run_finished")
    assert finished["best"]["student"]["metrics"] == measured[2]["metrics"]
    words = ["evaluate", place, "--split", "dev_mismatched"]
    answer = json.loads(command(words).out.splitlines()[-1])
    assert answer["metrics"] == pytest.approx(measured[3]["metrics"])
    assert models.load_classifier(place, task.head)
