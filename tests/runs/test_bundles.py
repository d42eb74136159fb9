"""`kdkit export --bundle` and `--strings`: options, events and messages."""

import json

import pytest
from kit.helpers import read_events, sentiment_student, small_dev_set

from kdkit import data, export, models
from kdkit.cli.main import main

LENGTH = 12


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on generated sentences."""
    path = tmp_path_factory.mktemp("bundles") / "run"
    student, _ = sentiment_student()
    tokenizer = models.word_piece_tokenizer(data.sentiment_vocabulary(), True)
    models.save_preset(student, tokenizer, path / "student", LENGTH)
    settings = {
        "task": "sentiment",
        "data_dir": None,
        "sequence_length": LENGTH,
    }
    config = {"verb": "distill", "recipe": "pkd", "data": settings}
    (path / "config.json").write_text(json.dumps(config))
    (path / "metrics.jsonl").touch()
    return path


def test_a_run_has_one_folder_for_an_app(run, capsys):
    with small_dev_set():
        assert main(["export", str(run), "--bundle"]) == 0
    path = run / "exports" / "student-bundle"
    bundle = export.verify_bundle(path)
    (model,) = bundle.models
    assert model.precision == "int8"
    assert set(model.metrics) == {"accuracy"}
    assert model.outputs == "softmax"
    (event,) = read_events(run, "export")
    assert event["file"] == "exports/student-bundle/student-int8.tflite"
    assert event["metrics"] == model.metrics
    assert f"{path}: labels.txt" in capsys.readouterr().out
    assert main(["export", str(run), "--bundle"]) == 2
    assert "exists already" in capsys.readouterr().err
