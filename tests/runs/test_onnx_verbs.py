"""ONNX files of a run: exported, evaluated, timed and reported."""

import json
import shutil

import pytest
from kit.helpers import read_events
from kit.references import reference

from kdkit.cli.main import main

pytestmark = pytest.mark.large


@pytest.fixture(scope="module")
def run(finished_run, tmp_path_factory):
    """A run with an ONNX and a LiteRT file in int8."""
    reference("onnxruntime")
    reference("tf2onnx")
    path = tmp_path_factory.mktemp("onnx") / "run"
    shutil.copytree(finished_run, path)
    for format in ("onnx", "litert"):
        command = ["export", str(path), "--format", format, "--no-teacher"]
        assert main([*command, "--precision", "int8"]) == 0
    return path


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def test_export_notes_the_file_and_its_metrics(run, capsys):
    event, _ = read_events(run, "export")
    assert event["file"] == "exports/student-int8.onnx"
    assert (event["format"], event["title"]) == ("onnx", "ONNX")
    assert event["sequence_length"] is None
    assert main(["evaluate", str(run / event["file"])]) == 0
    assert last_json(capsys.readouterr().out)["metrics"] == event["metrics"]


def test_files_of_both_formats_are_timed_alike_and_reported(
    run, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["benchmark", str(run), "--runs", "1", "--warmup", "0"]) == 0
    results = last_json(capsys.readouterr().out)["results"]
    suffixes = [result["file"].rpartition(".")[2] for result in results]
    assert suffixes == ["tflite", "onnx"]
    # The length of the LiteRT file, as ONNX files take any.
    fixed = read_events(run, "export")[1]["sequence_length"]
    assert {result["sequence_length"] for result in results} == {fixed}
    assert len({result["parameters"] for result in results}) == 1
    assert main(["report", str(run)]) == 0
    out = capsys.readouterr().out
    assert "ONNX int8" in out
    assert "LiteRT int8" in out
