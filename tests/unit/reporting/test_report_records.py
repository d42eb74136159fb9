import json

import pytest

from kdkit.reporting.records import read_run
from kdkit.reporting.selection import (
    Setting,
    best_evaluation,
    exported_files,
    loss_curves,
    metric_curve,
    model_description,
)
from kdkit.runs.events import Latency


def test_read_run_finds_the_teachers_run(distillation_run, teacher_run):
    records = read_run(distillation_run.run_dir)
    assert records.config["recipe"] == "tinybert"
    assert records.teacher_run.run_dir == teacher_run.run_dir
    assert records.remarks == ()


def test_read_run_finds_the_run_of_a_teachers_model(make_run, teacher_run):
    model = teacher_run.run_dir / "teacher"
    model.mkdir()
    run = make_run("run", {"teacher": str(model)})
    assert read_run(run.run_dir).teacher_run.run_dir == teacher_run.run_dir


def test_read_run_finds_a_teacher_that_the_run_trained(make_run, make_teacher):
    run = make_run("run", {"teacher": {"verb": "train-teacher"}})
    assert read_run(run.run_dir).teacher_run is None
    make_teacher("run/teacher_run")
    teacher_run = read_run(run.run_dir).teacher_run
    assert teacher_run.run_dir == run.run_dir / "teacher_run"


def test_student_of_another_run_may_be_the_teacher(make_run, distillation_run):
    run = make_run("second", {"teacher": str(distillation_run.run_dir)})
    records = read_run(run.run_dir)
    assert best_evaluation(records, "teacher").metrics == {"accuracy": 0.8379}
    assert model_description(records, "teacher").parameters == 14_350_250
    files = exported_files(records, "teacher")
    assert [file.size_bytes for file in files] == [
        57_600_000,
        28_900_000,
        14_500_000,
    ]
    assert {file.arm for file in files} == {"teacher"}


def test_read_run_says_which_lines_are_no_events(distillation_run, teacher_run):
    whole = read_run(distillation_run.run_dir)
    with open(teacher_run.run_dir / "metrics.jsonl", "a") as file:
        file.write("{")
    path = distillation_run.run_dir / "metrics.jsonl"
    lines = path.read_text().splitlines()
    count = len(lines) + 2  # the last line is that of a process that died
    lines[2:2] = ["[]"]
    path.write_text("\n".join([*lines, '{"event": "epoch", "arm": "stu']))
    records = read_run(distillation_run.run_dir)
    assert records.events == whole.events
    first, second = records.remarks
    assert first.endswith(f"line 3, {count}.")
    assert second.startswith("Teacher's run: Ignored in metrics.jsonl")


def test_best_evaluation_is_the_one_that_run_finished_names(distillation_run):
    control = best_evaluation(read_run(distillation_run.run_dir), "control")
    assert (control.stage, control.epoch) == ("fine_tuning", 4)
    assert control.metrics == {"accuracy": 0.7833}
    assert control.agreement["same_top_class"] == 0.801
    assert control.examples == 872


def test_best_evaluation_is_the_last_of_an_unfinished_run(make_run):
    run = make_run("run", {})
    run.evaluation("student", "intermediate_layer", 1, 0.9)
    run.evaluation("student", "prediction_layer", 1, 0.6)
    run.evaluation("student", "prediction_layer", 2, 0.7)
    run.evaluation("student", "prediction_layer", 2, 0.1, split="train")
    best = best_evaluation(read_run(run.run_dir), "student")
    assert (best.stage, best.epoch) == ("prediction_layer", 2)
    assert best.metrics == {"accuracy": 0.7}


def test_best_evaluation_of_the_teacher_may_be_in_its_own_run(
    make_run, teacher_run
):
    run = make_run("run", {"teacher": str(teacher_run.run_dir)})
    best = best_evaluation(read_run(run.run_dir), "teacher")
    assert best.metrics == {"accuracy": 0.8876}


def test_best_evaluation_leaves_out_what_is_no_number(make_run):
    run = make_run("run", {})
    metrics = {"accuracy": 0.5, "f1": float("nan"), "bleu": None}
    run.evaluation("student", "prediction_layer", 1, 0.0, metrics=metrics)
    best = best_evaluation(read_run(run.run_dir), "student")
    assert best.metrics == {"accuracy": 0.5}


def test_a_sentences_latency_has_the_room_of_its_file():
    fields = {
        "file": "a.tflite", "median_ms": 1.0, "p95_ms": 1.0, "threads": 1,
        "batch_size": 1, "sequence_length": 25,
    }  # fmt: skip
    assert Setting.of(Latency(**fields)).length == "25"
    alike = Setting.of(Latency(**fields, room=(64, 64)))
    assert alike.length == "25 of 64"
    other = Setting.of(Latency(**fields, room=(64, 32)))
    assert (
        str(other) == "1 thread, batch 1, length 25 (context length 64 and 32)"
    )
    # Files with other rooms are not compared.
    assert other != alike


def test_exported_files_keep_the_latest_latency_of_each_setting(make_run):
    run = make_run("run", {})
    file = run.export("student", "int8")
    run.latency(file, 9.0)
    run.latency(file, 6.0)
    run.latency(str(run.run_dir / file), 4.0, threads=2)
    (exported,) = exported_files(read_run(run.run_dir), "student")
    medians = {
        setting.threads: latency.median_ms
        for setting, latency in exported.latencies.items()
    }
    assert medians == {1: 6.0, 2: 4.0}


def test_exported_files_forget_the_latency_of_an_older_file(make_run):
    run = make_run("run", {})
    run.latency(run.export("student", "int8"), 9.0)
    run.export("student", "int8", size_bytes=7)
    (exported,) = exported_files(read_run(run.run_dir), "student")
    assert exported.size_bytes == 7
    assert exported.latencies == {}


def test_loss_curves_hold_objectives_by_arm_and_stage(distillation_run):
    curves = {
        (curve.arm, curve.stage, curve.name): curve
        for curve in loss_curves(read_run(distillation_run.run_dir))
    }
    assert list(curves) == [
        ("student", "intermediate_layer", "attention_mse"),
        ("student", "intermediate_layer", "hidden_state_mse"),
        ("student", "intermediate_layer", "loss"),
        ("student", "prediction_layer", "loss"),
        ("control", "fine_tuning", "loss"),
    ]
    attention = curves["student", "intermediate_layer", "attention_mse"]
    assert attention.train[0] == (1, 4.1)
    assert attention.dev[0] == (1, pytest.approx(1.07 * 4.1))


def test_loss_curves_count_a_repeated_epoch_once(make_run):
    run = make_run("run", {})
    for epoch, loss in ((1, 3.0), (2, 9.0), (2, 2.0)):
        run.epoch("student", "prediction_layer", epoch, loss=loss)
    (curve,) = loss_curves(read_run(run.run_dir))
    assert curve.train == ((1, 3.0), (2, 2.0))


def test_metric_curve_joins_the_stages(distillation_run):
    records = read_run(distillation_run.run_dir)
    curve = metric_curve(records, "student", "accuracy")
    assert [epoch for epoch, _ in curve.points] == [1, 2, 3, 4, 5, 6]
    assert curve.stages == (
        ("intermediate_layer", 1, 3),
        ("prediction_layer", 4, 6),
    )
    assert metric_curve(records, "student", "f1") is None


def test_records_need_no_keras(run_python, distillation_run):
    found = run_python(
        "import sys, json, kdkit.reporting as reporting\n"
        f"records = reporting.read_run({str(distillation_run.run_dir)!r})\n"
        "reporting.render_report(records)\n"
        "print(json.dumps([n for n in sys.modules if n in "
        "('keras', 'tensorflow', 'matplotlib.pyplot')]))"
    )
    assert json.loads(found) == []
