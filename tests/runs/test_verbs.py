"""Verbs over finished runs: evaluate, export, benchmark, report, doctor."""

import contextlib
import json
import os
import shutil

import numpy as np
import pytest
from kit import failing_disks
from kit.adapter import command
from kit.helpers import (
    change_events,
    eager_steps,
    read_events,
    save_classifier,
    sentiment_student,
)
from kit.references import reference
from kit.reports import config
from kit.run_checks import ENCODER_FILES
from kit.runs import LENGTH, ON_TASK, SMALL, TAUGHT, VOCABULARY, stage

import kdkit
from kdkit import export, models
from kdkit.reporting import comparison_table, read_run, render_report

QUICK = ("--runs", "2", "--warmup", "1")
FP32 = ("--precision", "fp32")


@pytest.fixture
def run(workspace, tmp_path):
    """A run with a control, and nothing exported."""
    return workspace.copy("vanilla_kd", tmp_path / "run")


@pytest.fixture
def own_words(run):
    """The same with kdkit's own tokenizer, whose rules files can have."""
    names = json.loads((run / "student" / "labels.json").read_text())["classes"]
    student = models.load_classifier(run, 2).model
    shutil.rmtree(run / "student")
    save_classifier(
        student,
        models.word_piece_tokenizer(list(VOCABULARY), True),
        run / "student",
        LENGTH,
        models.Head("sequence", 2, tuple(names)),
    )
    return run


@pytest.fixture
def exported(workspace, tmp_path):
    """The same with LiteRT files."""
    run = workspace.exported_run(*ENCODER_FILES)
    return shutil.copytree(run, tmp_path / "exported")


def said(*words):
    """What a command prints that must succeed."""
    answer = command(words)
    assert answer.status == 0, answer
    return answer.out


def last(text):
    return json.loads(text.splitlines()[-1])


def events(run, kind, arm):
    return [event for event in read_events(run, kind) if event["arm"] == arm]


def test_evaluate_takes_arms_presets_and_files(exported, workspace, tmp_path):
    (finished,) = read_events(exported, "run_finished")
    measured = {arm: one["metrics"] for arm, one in finished["best"].items()}
    (teacher,) = events(exported, "evaluation", "teacher")
    measured["teacher"] = teacher["metrics"]
    file = exported / "exports" / "student-fp32.tflite"
    elsewhere = shutil.copy(file, tmp_path / "model.tflite")
    data = workspace.words(ON_TASK)
    for arm, *words in (
        ("student", exported),
        ("control", exported, "--arm", "control"),
        ("teacher", exported, "--arm", "teacher"),  # outside of the run
        ("student", exported / "student", *data),
        ("student", file),
        ("student", elsewhere, *data, "--tokenizer", exported),
    ):
        answer = last(said("evaluate", *words))
        assert (answer["split"], answer["metrics"]) == ("dev", measured[arm])


def test_a_teachers_files_are_those_of_its_students_run(run):
    said("export", run, *FP32)
    said("export", run, "--arm", "teacher", "--precision", "int8")
    (event,) = events(run, "export", "teacher")
    assert event["file"] == "exports/teacher/teacher-int8.tflite"
    assert (event["precision"], event["split"]) == ("int8", "dev")
    (before,) = events(run, "evaluation", "teacher")
    assert event["metrics"]["accuracy"] >= before["metrics"]["accuracy"] - 0.2
    results = last(said("benchmark", run, *QUICK))["results"]
    assert {result["file"].rpartition("exports/")[2] for result in results} == {
        "student-fp32.tflite",
        "teacher/teacher-int8.tflite",
    }


def test_verbs_that_only_read_accept_a_read_only_run(exported, tmp_path):
    run, is_root = tmp_path / "disk" / "run", os.geteuid() == 0
    with contextlib.ExitStack() as stack:
        if is_root:  # who may write whatever the mode of a folder
            stack.enter_context(failing_disks.small_disk(run.parent, 80))
        shutil.copytree(exported, run)
        if is_root:
            stack.enter_context(failing_disks.read_only(run.parent))
        for folder in () if is_root else (run, run / "exports"):
            folder.chmod(0o555)
            stack.callback(folder.chmod, 0o755)
        file = run / "exports" / "student-fp32.tflite"
        for words in (("evaluate", run), ("benchmark", file, *QUICK)):
            with pytest.warns(UserWarning, match="Not logged"):
                said(*words)
        assert f"{run} is read-only" in said("report", run, run)


def test_report_and_doctor_take_a_finished_run(exported, workspace):
    said("benchmark", exported, *QUICK)
    printed = said("report", exported)
    for name in ("student", "control", "teacher", "fp16"):
        assert name in printed
    assert "fp16" in (exported / "report.html").read_text("utf-8")
    words = ("doctor", "vanilla_kd", *TAUGHT, "--num-layers", "2")
    workspace.run(*words)


def test_a_run_has_one_folder_for_an_app(own_words):
    run = own_words
    printed = said("export", run, "--bundle")
    path = run / "exports" / "student-bundle"
    (model,) = export.verify_bundle(path)["models"]
    assert (model["precision"], model["outputs"]) == ("int8", "softmax")
    (event,) = read_events(run, "export")
    assert event["file"] == "exports/student-bundle/student-int8.tflite"
    assert event["metrics"] == model["metrics"]
    assert f"{path}: labels.txt" in printed
    answer = command(["export", run, "--bundle"])
    assert (answer.status, "student-bundle" in answer.err) == (2, True)


def test_a_directory_for_transformers_is_evaluated_like_the_student(own_words):
    run = own_words
    words = ("export", run, "--format", "hf", "--license", "mit")
    said(*words)
    (event,) = read_events(run, "export")
    assert event["file"] == "exports/student-hf"
    folder = run / event["file"]
    card = (folder / "README.md").read_text("utf-8")
    for text in ('license: "mit"', "| student-hf |", "model='student-hf')"):
        assert text in card
    model = reference(
        "transformers"
    ).AutoModelForSequenceClassification.from_pretrained(folder)
    labels = json.loads((run / "student" / "labels.json").read_text())
    assert list(model.config.id2label.values()) == labels["classes"]
    assert last(said("evaluate", folder))["metrics"] == event["metrics"]
    (folder / "README.md").write_text("mine")
    answer = command(words)
    assert (answer.status, "student-hf" in answer.err) == (2, True)


@pytest.mark.large
def test_onnx_files_are_timed_like_those_of_litert_and_reported(
    exported, monkeypatch
):
    for package in ("onnxruntime", "tf2onnx"):
        reference(package)
    monkeypatch.setenv("COLUMNS", "200")
    said("export", exported, "--format", "onnx", "--precision", "int8")
    *_, event = read_events(exported, "export")
    assert event["file"] == "exports/student-int8.onnx"
    assert (event["format"], event["sequence_length"]) == ("onnx", None)
    file = exported / event["file"]
    assert last(said("evaluate", file))["metrics"] == event["metrics"]
    results = last(said("benchmark", exported, *QUICK))["results"]
    assert {result["file"][-4:] for result in results} == {"lite", "onnx"}
    # The length of the LiteRT files, as ONNX files take any.
    assert len({result["sequence_length"] for result in results}) == 1
    assert len({result["parameters"] for result in results}) == 1
    assert "ONNX int8" in said("report", exported)


CLASSES = kdkit.tasks.get_task("mnli").kind.class_names


@pytest.fixture
def on_mismatched(tmp_path):
    """A run on MNLI whose epochs were chosen by `dev_mismatched`.

    Its student answers the first class. That is right in half of the rows
    there, and in a quarter of those of dev.
    """
    folder, run = tmp_path / "MNLI", tmp_path / "run"
    student, tokenizer = sentiment_student(num_classes=3)
    kernel, bias = student.weights[-2:]
    kernel.assign(np.zeros(kernel.shape))
    bias.assign([1.0, 0.0, 0.0])
    save_classifier(student, tokenizer, run / "student", LENGTH)
    folder.mkdir()
    for stem, kinds in (("dev_mismatched", "0102"), ("dev_matched", "0121")):
        lines = ["sentence1\tsentence2\tgold_label"]
        for number, kind in enumerate(kinds * 30):
            text = f"a plot {'is ' * (number % 7)}\tsuperb"
            lines.append(f"{text}\t{CLASSES[int(kind)]}")
        (folder / f"{stem}.tsv").write_text("\n".join(lines))
    own = {"task": "mnli", "data_dir": str(tmp_path), "sequence_length": LENGTH}
    own |= {"dev_split": "dev_mismatched"}
    saved = config(data=own).model_dump(mode="json")
    (run / "config.json").write_text(json.dumps(saved))
    measured = {"split": "dev_mismatched", "metrics": {"accuracy": 0.5}}
    event = {"time": 1, "event": "evaluation", "arm": "student", **measured}
    (run / "metrics.jsonl").write_text(f"{json.dumps(event)}\n")
    return run


def test_a_file_is_measured_and_reported_on_the_split_of_its_run(on_mismatched):
    printed = said("export", on_mismatched, *FP32)
    assert "accuracy 0.5000 on dev_mismatched" in printed
    assert "has collapsed" in printed
    (event,) = read_events(on_mismatched, "export")
    assert event["split"] == "dev_mismatched"
    assert event["metrics"] == {"accuracy": 0.5}

    def measured_on(split):
        def change(event):
            if event["event"] == "export":
                event |= {"split": split, "metrics": {"accuracy": 0.125}}

        change_events(on_mismatched, change)
        records = read_run(on_mismatched)
        table = comparison_table([records]).markdown()
        page = render_report([records])
        return table.count("12.5"), "was measured on" in page

    assert measured_on("dev_mismatched") == (1, False)
    assert measured_on("dev") == (0, True)


def test_a_head_that_no_stage_trains_is_reported(workspace, tmp_path):
    run = tmp_path / "run"
    words = (
        *("distill", "tinybert", *TAUGHT, *SMALL),
        *("--stages", "intermediate_layer", *stage("intermediate_layer", 1)),
    )
    with eager_steps():
        workspace.run(*words, "--run-dir", run)
    (finished,) = read_events(run, "run_finished")
    (layer,) = finished["best"]["student"]["untrained_layers"]
    assert "logits" in layer
    told = " ".join(said("report", run).split())
    assert f"head was never trained ({layer})" in told


FIELDS = {
    "median_ms": 1.0,
    "p95_ms": 1.0,
    "threads": 1,
    "batch_size": 1,
    "sequence_length": 25,
    "warmup": 1,
    "runs": 1,
    "size_bytes": 1,
    "parameters": None,
}


def test_speed_ups_are_of_files_that_do_the_same_work(tmp_path, monkeypatch):
    measured = (
        {"median_ms": 100.0, "sequence_length": 128},
        {"median_ms": 60.0},
        {"median_ms": 20.0},
        {"median_ms": 2.0, "reads_tokens": True},  # one token, not a row
    )
    files = [tmp_path / f"{number}.tflite" for number in range(len(measured))]
    for file in files:
        file.touch()
    reports = [
        export.LatencyReport(**{**FIELDS, "file": file.name, **fields})
        for file, fields in zip(files, measured, strict=True)
    ]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        export, "measure_latencies", lambda paths, **settings: reports
    )
    lines = map(str.split, said("benchmark", *files).splitlines())
    speed_ups = {
        cells[0]: cells[3]
        for cells in lines
        if cells and cells[0].endswith(".tflite")
    }
    assert [*speed_ups.values()] == ["1.0×", "1.0×", "3.0×", "1.0×"]
