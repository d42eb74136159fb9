"""What exported files give, and the verbs that read finished runs."""

import json

import adapter
import comparing_goldens
import pytest
from run_checks import fixed_batch
from runs import LENGTH
from runs import ON_TASK
from runs import TAUGHT

from kdkit import export

PRECISIONS = ("fp32", "fp16", "int8")
TOKENS = [3, 17, 42, 8, 61]
SOURCE = [9, 30, 21, 5]


def finished(workspace, *words):
    """What a command prints that must succeed."""
    answer = adapter.command(workspace.words(words))
    assert answer.status == 0, answer
    return answer.out


def exported(workspace, name, *more):
    """The folder of files of a run, written to be read once."""
    folder = workspace.path / f"{name}_exports"
    if not folder.exists():
        words = ("export", name, "--output", folder, "--no-teacher", *more)
        finished(workspace, *words)
    return folder


def file_of(folder, precision):
    (file,) = folder.glob(f"*{precision}.tflite")
    return file


def test_the_pattern_of_a_file_finds_one(tmp_path):
    (tmp_path / "student-int8.tflite").touch()
    assert file_of(tmp_path, "int8").name == "student-int8.tflite"


@pytest.mark.xdist_group("tasks")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_files_of_an_encoder_give_the_golden_logits(precision, workspace):
    workspace.make("vanilla_kd")
    folder = exported(workspace, "vanilla_kd", "--precision", *PRECISIONS)
    logits = export.LiteRTModel(file_of(folder, precision))(fixed_batch())
    comparing_goldens.check("exports", f"encoder {precision}", logits)


@pytest.mark.xdist_group("tasks")
def test_a_saved_model_gives_the_golden_logits(workspace, tmp_path):
    workspace.make("vanilla_kd")
    model = adapter.load("classifier", workspace.path / "vanilla_kd")
    export.to_saved_model(model, tmp_path / "model")
    logits = export.open_file(tmp_path / "model")(fixed_batch())
    comparing_goldens.check("exports", "encoder SavedModel", logits)


@pytest.mark.xdist_group("tasks")
def test_a_bilstm_gives_the_golden_logits(workspace, tmp_path):
    workspace.make("distilled_bilstm")
    model = adapter.load("classifier", workspace.path / "distilled_bilstm")
    file = tmp_path / "model.tflite"
    export.to_litert(model, file, sequence_length=LENGTH)
    logits = export.LiteRTModel(file)(fixed_batch())
    comparing_goldens.check("exports", "BiLSTM fp32", logits)


@pytest.mark.xdist_group("texts")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["next_tokens", "spans_and_pairs"])
def test_files_of_text_models_give_the_golden_logits(
    name, precision, workspace
):
    workspace.make(name)
    more = ("--sequence-length", "8", "--precision", *PRECISIONS)
    file = file_of(exported(workspace, name, *more), precision)
    source = SOURCE if name == "spans_and_pairs" else None
    logits = adapter.token_logits(file, source, TOKENS)
    comparing_goldens.check(
        "exports", f"{name} {precision}", comparing_goldens.summary(logits)
    )


@pytest.mark.xdist_group("texts")
@pytest.mark.parametrize("name", ["next_tokens", "spans_and_pairs"])
def test_generated_text_is_the_golden_one(name, workspace):
    workspace.make(name)
    words = ("generate", name, "--prompt", "the film", "--max-tokens", "8")
    comparing_goldens.check("verbs", words[1], finished(workspace, *words))


@pytest.mark.xdist_group("tasks")
def test_evaluate_measures_the_golden_metrics(workspace):
    workspace.make("fine_tuned")
    printed = finished(workspace, "evaluate", "fine_tuned", *ON_TASK)
    answer = json.loads(printed.splitlines()[-1])
    fields = ("task", "split", "examples", "metrics")
    comparing_goldens.check(
        "verbs", "evaluate", {field: answer[field] for field in fields}
    )


@pytest.mark.xdist_group("tasks")
def test_augmented_rows_are_the_golden_ones(workspace):
    workspace.make("augment_verb")
    rows = (workspace.path / "augmented.tsv").read_text().splitlines()
    comparing_goldens.check("verbs", "augment", rows)


@pytest.mark.xdist_group("tasks")
def test_the_verb_cache_measures_the_golden_errors(workspace):
    printed = workspace.answer("cache_verb").out
    answer = json.loads(printed.splitlines()[-1])
    comparing_goldens.check("verbs", "cache", workspace.without_place(answer))


@pytest.mark.xdist_group("tasks")
def test_benchmark_reports_the_sizes_of_files(workspace):
    workspace.make("vanilla_kd")
    folder = exported(workspace, "vanilla_kd", "--precision", *PRECISIONS)
    file = file_of(folder, "fp32")
    printed = finished(workspace, "benchmark", file)
    (answer,) = json.loads(printed.splitlines()[-1])["results"]
    fields = ("threads", "batch_size", "sequence_length", "parameters")
    assert answer["median_ms"] <= answer["p95_ms"]
    assert answer["size_bytes"] == file.stat().st_size
    comparing_goldens.check(
        "verbs", "benchmark", {field: answer[field] for field in fields}
    )


@pytest.mark.xdist_group("tasks")
def test_doctor_and_report_take_finished_runs(workspace):
    workspace.make("vanilla_kd")
    finished(workspace, "doctor", "vanilla_kd", *TAUGHT, "--num-layers", "2")
    finished(workspace, "report", "vanilla_kd")
    assert (workspace.path / "vanilla_kd" / "report.html").is_file()
