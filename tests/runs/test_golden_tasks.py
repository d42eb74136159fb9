"""Runs on a task, their settings and files, and the verbs that read them."""

import json

import pytest
from kit import adapter
from kit import goldens as comparing_goldens
from kit.run_checks import (
    PRECISIONS,
    check_config,
    check_run,
    file_of,
    fixed_batch,
    read_config,
)
from kit.runs import LENGTH, ON_TASK, RUNS, TAUGHT

from kdkit import export

NAMES = [
    name for name, run in RUNS.items() if run.kind in ("classifier", "masked")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_a_task_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_runs_are_the_golden_ones(name, workspace):
    check_config(workspace, f"run {name}", read_config(workspace.make(name)))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_files_of_an_encoder_give_the_golden_logits(precision, workspace):
    workspace.make("vanilla_kd")
    options = ("--logits", "--precision", *PRECISIONS)
    folder = workspace.exported("vanilla_kd", *options)
    logits = export.LiteRTModel(file_of(folder, precision))(fixed_batch())
    comparing_goldens.check("exports", f"encoder {precision}", logits)


def test_a_saved_model_gives_the_golden_logits(workspace, tmp_path):
    workspace.make("vanilla_kd")
    model = adapter.load("classifier", workspace.path / "vanilla_kd")
    export.to_saved_model(model, tmp_path / "model")
    logits = export.open_file(tmp_path / "model")(fixed_batch())
    comparing_goldens.check("exports", "encoder SavedModel", logits)


def test_a_bilstm_gives_the_golden_logits(workspace, tmp_path):
    workspace.make("distilled_bilstm")
    model = adapter.load("classifier", workspace.path / "distilled_bilstm")
    file = tmp_path / "model.tflite"
    export.to_litert(model, file, sequence_length=LENGTH)
    logits = export.LiteRTModel(file)(fixed_batch())
    comparing_goldens.check("exports", "BiLSTM fp32", logits)


def test_the_file_of_a_student_that_rounds_gives_the_golden_logits(workspace):
    workspace.make("quantized")
    options = ("--logits", "--precision", "static_int8")
    file = file_of(workspace.exported("quantized", *options), "static_int8")
    logits = export.open_file(file)(fixed_batch())
    comparing_goldens.check("exports", "encoder static_int8", logits)


def test_evaluate_measures_the_golden_metrics(workspace):
    workspace.make("fine_tuned")
    printed = workspace.run("evaluate", "@fine_tuned", *ON_TASK)
    answer = json.loads(printed.splitlines()[-1])
    fields = ("task", "split", "examples", "metrics")
    comparing_goldens.check(
        "verbs", "evaluate", {field: answer[field] for field in fields}
    )


def test_augmented_rows_are_the_golden_ones(workspace):
    workspace.make("augment_verb")
    rows = (workspace.path / "augmented.tsv").read_text().splitlines()
    comparing_goldens.check("verbs", "augment", rows)


def test_the_verb_cache_measures_the_golden_errors(workspace):
    printed = workspace.told("cache_verb")["out"]
    answer = json.loads(printed.splitlines()[-1])
    comparing_goldens.check("verbs", "cache", workspace.without_place(answer))


def test_benchmark_reports_the_sizes_of_files(workspace):
    workspace.make("vanilla_kd")
    folder = workspace.exported("vanilla_kd", "--precision", *PRECISIONS)
    file = file_of(folder, "fp32")
    printed = workspace.run("benchmark", file)
    (answer,) = json.loads(printed.splitlines()[-1])["results"]
    fields = ("threads", "batch_size", "sequence_length", "parameters")
    assert answer["median_ms"] <= answer["p95_ms"]
    assert answer["size_bytes"] == file.stat().st_size
    comparing_goldens.check(
        "verbs", "benchmark", {field: answer[field] for field in fields}
    )


def test_doctor_and_report_take_finished_runs(workspace):
    workspace.make("vanilla_kd")
    workspace.run("doctor", "vanilla_kd", *TAUGHT, "--num-layers", "2")
    workspace.run("report", "@vanilla_kd")
    assert (workspace.path / "vanilla_kd" / "report.html").is_file()
