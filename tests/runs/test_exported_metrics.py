"""Which rows `kdkit export` measures on, and whether reports show it."""

import json

import numpy as np
import pytest
from kit.helpers import read_events, sentiment_student

from kdkit import models
from kdkit.cli.main import main
from kdkit.reporting import comparison_table, read_run
from kdkit.reporting.notes import run_notes
from kdkit.reporting.selection import exported_files
from kdkit.tasks import get_task
from kdkit.training.task_data import predict_logits

LENGTH, ROWS = 12, 6
TASK = get_task("mnli")
# By split: the class of each row, and the class that the student predicts.
DISTANCES = {"dev_mismatched": 0, "dev_matched": 1}


def write_rows(root, stem, classes):
    lines = ["sentence1\tsentence2\tgold_label"]
    for number, label in enumerate(classes):
        name = TASK.kind.class_names[label % TASK.kind.num_classes]
        lines.append(f"a plot {'is ' * number}\tsuperb\t{name}")
    (root / "MNLI").mkdir(exist_ok=True)
    (root / "MNLI" / f"{stem}.tsv").write_text("\n".join(lines))


def log(run, event, **fields):
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"time": 1.0, "event": event, **fields}) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on MNLI whose epochs were chosen by `dev_mismatched`.

    Its student is right on all rows of that split and on none of `dev`.
    """
    root = tmp_path_factory.mktemp("mnli")
    student, tokenizer = sentiment_student(TASK.kind.num_classes)
    path = root / "run"
    models.save_preset(student, tokenizer, path / "student", LENGTH)
    write_rows(root, "dev_mismatched", [0] * ROWS)
    examples = TASK.load("dev_mismatched", root)
    encoded = TASK.encode(examples, tokenizer, LENGTH)
    answers = np.argmax(predict_logits(student, encoded), axis=-1)
    for stem, distance in DISTANCES.items():
        write_rows(root, stem, answers + distance)
    settings = {
        "task": "mnli",
        "data_dir": str(root),
        "sequence_length": LENGTH,
        "dev_split": "dev_mismatched",
    }
    config = {"verb": "distill", "recipe": "pkd", "data": settings}
    (path / "config.json").write_text(json.dumps(config))
    log(
        path,
        "evaluation",
        arm="student",
        split="dev_mismatched",
        metrics={"accuracy": 1.0},
    )
    return path


def export(run, capsys, *words):
    words = [*words, "--precision", "fp32", "--overwrite"]
    assert main(["export", str(run), *map(str, words)]) == 0
    return capsys.readouterr().out


def test_a_file_is_measured_on_the_split_of_its_run(run, capsys):
    said = export(run, capsys)
    assert "accuracy 1.0000 on dev_mismatched" in said
    event = read_events(run, "export")[-1]
    assert event["split"] == "dev_mismatched"
    assert event["metrics"] == {"accuracy": 1.0}
    (file,) = exported_files(read_run(run), "student")
    assert (file.split, file.metrics) == ("dev_mismatched", event["metrics"])


def test_a_report_shows_files_on_the_split_of_its_tables(run, tmp_path):
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "config.json").write_text((run / "config.json").read_text())
    (evaluation,) = read_events(run, "evaluation")
    for split in ("dev_mismatched", "dev"):
        log(copy, **evaluation)
        log(
            copy,
            "export",
            arm="student",
            file=f"on_{split}.tflite",
            format="litert",
            precision="fp32",
            size_bytes=1,
            metrics={"accuracy": 0.125},
            title="LiteRT",
            split=split,
        )
    records = read_run(copy)
    found = {file.file: file for file in exported_files(records, "student")}
    shown = found["on_dev_mismatched.tflite"]
    assert shown.metrics == {"accuracy": 0.125}
    assert comparison_table([records]).markdown().count("12.5") == 1
    notes = "\n".join(run_notes(records))
    for file in found.keys() - {shown.file}:
        assert found[file].metrics == {}
        assert f"{file} was measured on dev, and the tables show" in notes
