"""Files that `kdkit benchmark` compares, and their outputs."""

import pytest

from kdkit import export
from kdkit.cli.main import main

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


@pytest.fixture
def benchmark(tmp_path, monkeypatch):
    """Runs the verb over files that took what they are said to have taken."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*measured):
        files = [
            tmp_path / f"{number}.tflite" for number in range(len(measured))
        ]
        for file in files:
            file.touch()
        reports = [
            export.LatencyReport(**{**FIELDS, "file": file.name, **fields})
            for file, fields in zip(files, measured, strict=True)
        ]
        monkeypatch.setattr(
            export, "measure_latencies", lambda paths, **settings: reports
        )
        assert main(["benchmark", *map(str, files)]) == 0

    return run


def test_speed_ups_are_of_files_that_do_the_same_work(benchmark, capsys):
    benchmark(
        {"median_ms": 100.0, "sequence_length": 128},
        {"median_ms": 60.0},
        {"median_ms": 20.0},
        {"median_ms": 2.0, "reads_tokens": True},  # one token, not a row
    )
    found = {}
    for line in capsys.readouterr().out.splitlines():
        cells = line.split()
        if cells and cells[0].endswith(".tflite"):
            found[cells[0]] = cells[3]
    assert found == {
        "0.tflite": "1.0×",
        "1.tflite": "1.0×",
        "2.tflite": "3.0×",
        "3.tflite": "1.0×",
    }
