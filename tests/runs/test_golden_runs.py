"""The shared runs, their files and what verbs print, against the goldens."""

import json
import shutil

import pytest
from kit import adapter, goldens
from kit.run_checks import (
    ENCODER_FILES,
    PRECISIONS,
    check_run,
    file_of,
    fixed_batch,
)
from kit.runs import LENGTH, ON_TASK, PAIRS, RUNS

from kdkit import export

STEP = 0.15  # more than a step of static_int8, 0.1
NAMES = [name for name, run in RUNS.items() if run.kind != "text"]
EXPORTED = {
    **{f"encoder {precision}": ENCODER_FILES for precision in PRECISIONS},
    "encoder static_int8": (
        "quantized",
        *("--logits", "--precision", "static_int8"),
    ),
    "embedder int8": ("sentence_embedding", "--precision", "int8"),
}
EVALUATED = {
    "evaluate": ("fine_tuned", *ON_TASK),
    "evaluate pairs": ("sentence_embedding", "--test", *PAIRS),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)


@pytest.mark.parametrize("key", EXPORTED)
def test_a_file_gives_the_golden_outputs(key, workspace):
    folder = workspace.exported(*EXPORTED[key])
    outputs = export.open_file(file_of(folder, key.split()[-1]))(fixed_batch())
    if key.startswith("embedder"):
        outputs = goldens.summary(outputs)
    # An answer of a model that was trained to round is a step further or not.
    tolerance = STEP if key.endswith("static_int8") else 1e-5
    goldens.check("exports", key, outputs, tolerance)


@pytest.mark.parametrize("name", ["vanilla_kd", "distilled_bilstm"])
def test_a_model_written_in_python_gives_the_golden_logits(
    name, workspace, tmp_path
):
    model = adapter.load("classifier", workspace.make(name))
    if name == "vanilla_kd":
        key, file = "encoder SavedModel", tmp_path / "model"
        export.to_saved_model(model, file)
    else:
        key, file = "BiLSTM fp32", tmp_path / "model.tflite"
        export.to_litert(model, file, sequence_length=LENGTH)
    outputs = export.open_file(file)(fixed_batch())
    goldens.check("exports", key, outputs, 1e-5)


@pytest.mark.parametrize("key", EVALUATED)
def test_evaluate_measures_the_golden_metrics(key, workspace, tmp_path):
    name, *words = EVALUATED[key]
    run = workspace.copy(name, tmp_path / "run")
    answer = json.loads(workspace.run("evaluate", run, *words).splitlines()[-1])
    fields = ("task", "split", "examples", "metrics")
    goldens.check("verbs", key, {field: answer[field] for field in fields})


def test_augmented_rows_are_the_golden_ones(workspace):
    workspace.make("augment_verb")
    _, *rows = (workspace.path / "augmented.tsv").read_text().splitlines()
    goldens.check("verbs", "augment", rows)


def test_the_verb_cache_measures_the_golden_errors(workspace):
    *_, answer = workspace.told("cache_verb")["out"].splitlines()
    goldens.check("verbs", "cache", workspace.without_place(json.loads(answer)))


def test_benchmark_reports_the_golden_sizes_of_a_file(workspace, tmp_path):
    exported = workspace.exported_run(*ENCODER_FILES)
    run = shutil.copytree(exported, tmp_path / "run")
    file = file_of(run / "exports", "fp32")
    printed = workspace.run("benchmark", file, "--runs", "5", "--warmup", "1")
    (answer,) = json.loads(printed.splitlines()[-1])["results"]
    fields = ("threads", "batch_size", "sequence_length", "parameters")
    assert answer["median_ms"] <= answer["p95_ms"]
    assert answer["size_bytes"] == file.stat().st_size
    goldens.check("verbs", "benchmark", {key: answer[key] for key in fields})


def test_only_numbers_with_a_fraction_have_a_tolerance():
    golden = {"a": 1.0, "b": 2, "c": "x", "d": [True]}
    near = {"a": 1.0000001, "b": 2, "c": "x", "d": [True]}
    assert not list(goldens.differences(golden, near, 1e-6))
    far = {"a": 1.00001, "b": 3, "c": "y", "d": [1]}
    assert len(list(goldens.differences(golden, far, 1e-6))) == 4
    assert len(list(goldens.differences(golden, {"a": 1.0, "e": 1}, 1e-6))) == 4
