"""Runs on every kind of task: teacher, student, evaluation, export."""

import json

import keras_hub
import numpy as np
import pytest
from kit.helpers import large_except, read_events
from kit.tasks import WORDS, WRITERS, write_encoder

from kdkit.cli.main import main
from kdkit.models import load_classifier
from kdkit.recipes import RECIPES
from kdkit.recipes.stages import Stage
from kdkit.reporting import read_run, render_report
from kdkit.taps import TEACHER_OUTPUTS, select_inputs
from kdkit.tasks import get_task
from kdkit.training import (
    DataSettings,
    DistillSettings,
    ModelSettings,
    TeacherSettings,
    distill,
    train_teacher,
)
from kdkit.training.making import load_teachers
from kdkit.training.sources import TaskSource, cached_dev_logits
from kdkit.training.task_data import (
    Evaluator,
    load_data,
    make_forward,
    predict_logits,
)

LENGTH = 16
SIZES = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 16,
    "max_sequence_length": 32,
    "dropout": 0.0,
}


def stage(**settings):
    return Stage(
        name="fine_tuning",
        epochs=1,
        learning_rate=1e-3,
        batch_size=8,
        **settings,
    )


@pytest.fixture(scope="module", params=large_except(WRITERS, "conll"))
def runs(request, tmp_path_factory):
    """A teacher's run and a distillation, of one epoch each."""
    root = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](root)
    task = get_task(request.param).for_data(root)
    data_settings = DataSettings(
        task.name, str(root), sequence_length=LENGTH, num_buckets=1
    )
    write_encoder(
        root / "encoder",
        *([task.kind.vocabulary] if task.kind.vocabulary else []),
    )
    train_teacher(
        TeacherSettings(
            data=data_settings,
            model=ModelSettings(checkpoint=str(root / "encoder")),
            stages=(stage(hard_label_weight=1.0),),
            jit_compile=False,
        ),
        root / "teacher",
        force=True,  # sentences of so few words come again in dev
    )
    intermediate, _ = RECIPES["tinybert"].stages_for(task)
    (pkd,) = RECIPES["pkd"].stages_for(task)
    distill(
        DistillSettings(
            recipe="pkd",
            data=data_settings,
            teacher=str(root / "teacher"),
            # The other way round, so that there is something to learn.
            student=ModelSettings(copy_from="teacher", copy_layers=(2, 1)),
            stages=(
                stage(
                    soft_label_weight=pkd.soft_label_weight,
                    objectives=(*intermediate.objectives, *pkd.objectives),
                ),
            ),
            jit_compile=False,
        ),
        root / "run",
        force=True,
    )
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
    assert all(value > 0 for value in objectives.values()), objectives
    *_, evaluation = read_events(root / "run", "evaluation")
    assert set(evaluation["metrics"]) == set(task.metrics)
    records = read_run(root / "run")
    assert set(records.predictions) == {"teacher", "student"}
    assert "Right and wrong answers" in render_report(records)
    assert evaluation["agreement"]["kl_divergence"] >= 0


def test_evaluate_prints_what_the_run_measured(runs, capsys):
    root, _ = runs
    assert main(["evaluate", str(root / "run")]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    *_, evaluation = read_events(root / "run", "evaluation")
    assert printed["metrics"] == pytest.approx(evaluation["metrics"])
    assert printed["examples"] == evaluation["examples"]


@pytest.mark.large
def test_exported_files_do_what_the_student_does(runs):
    root, _ = runs
    arguments = ["export", str(root / "run"), "--precision", "fp32", "int8"]
    assert main(arguments) == 0
    *_, evaluation = read_events(root / "run", "evaluation")
    fp32, int8, teacher = read_events(root / "run", "export")
    assert (teacher["arm"], teacher["precision"]) == ("teacher", "int8")
    assert fp32["max_abs_difference"] <= 1e-4
    assert fp32["metrics"] == pytest.approx(evaluation["metrics"])
    assert set(int8["metrics"]) == set(fp32["metrics"])
    file = root / "run" / "exports" / "student-fp32.tflite"
    assert main(["benchmark", str(file), "--runs", "2", "--warmup", "1"]) == 0


def test_logits_kept_of_dev_are_what_the_teacher_says_of_each_batch(runs):
    """Nothing where tokens have labels: of others no logits were kept."""
    root, task = runs
    (teacher,) = load_teachers([root / "teacher"], task)
    settings = DataSettings(task.name, str(root), LENGTH)
    _, dev = load_data(task, settings, teacher.tokenizer, seed=0)
    logits = predict_logits(make_forward(teacher.model), dev)
    evaluator = Evaluator(task, dev, teachers_logits=(logits,))
    *_, of_logits = RECIPES["tinybert"].stages_for(task)
    if dev.has_label_per_token:
        assert cached_dev_logits(of_logits, evaluator) is None
        return
    source = TaskSource(None, evaluator, num_buckets=1)
    for x, _ in source.validation_stream(of_logits).evaluation():
        (kept,) = x[TEACHER_OUTPUTS]
        said = teacher.model(select_inputs(teacher.model, x))
        np.testing.assert_allclose(kept["logits"], said, rtol=1e-5, atol=1e-6)


def test_a_model_with_random_weights_reads_the_characters_of_its_data(tmp_path):
    WRITERS["polyphone"](tmp_path)
    train_teacher(
        TeacherSettings(
            data=DataSettings("polyphone", str(tmp_path), LENGTH),
            model=ModelSettings(**SIZES),
            stages=(stage(hard_label_weight=1.0),),
            jit_compile=False,
        ),
        tmp_path / "run",
        force=True,
    )
    backbone = keras_hub.models.Backbone.from_preset(
        str(tmp_path / "run" / "teacher")
    )
    characters = get_task("polyphone").for_data(tmp_path).kind.vocabulary
    assert backbone.vocabulary_size == len(characters)
    labels = json.loads((tmp_path / "run/teacher/labels.json").read_text())
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
    data_settings = DataSettings("mnli", str(tmp_path), LENGTH)
    train_teacher(
        TeacherSettings(
            data=data_settings,
            model=ModelSettings(checkpoint=str(tmp_path / "encoder")),
            stages=(stage(hard_label_weight=1.0),),
            jit_compile=False,
        ),
        tmp_path / "teacher",
        force=True,
    )
    distill(
        DistillSettings(
            recipe="vanilla_kd",
            data=data_settings,
            teacher=str(tmp_path / "teacher"),
            student=ModelSettings(copy_from="teacher", copy_layers=(1,)),
            stages=(
                stage(
                    objectives=RECIPES["vanilla_kd"].stages[0].objectives,
                ),
            ),
            jit_compile=False,
        ),
        tmp_path / "run",
    )
    task = get_task("mnli")
    assert [
        (event["arm"], event["split"])
        for event in read_events(tmp_path / "run", "evaluation")
    ] == [
        ("teacher", "dev"), ("teacher", "dev_mismatched"),
        ("student", "dev"), ("student", "dev_mismatched"),
    ]  # fmt: skip
    student = load_classifier(tmp_path / "run", task.head)
    mismatched = read_events(tmp_path / "run", "evaluation")[-1]
    examples = task.load("dev_mismatched", tmp_path)
    rows = task.encode(examples, student.tokenizer, LENGTH)
    assert mismatched["metrics"] == pytest.approx(
        task.compute_metrics(rows.labels, predict_logits(student.model, rows))
    )
    (finished,) = read_events(tmp_path / "run", "run_finished")
    dev = read_events(tmp_path / "run", "evaluation")[2]
    assert finished["best"]["student"]["metrics"] == dev["metrics"]
