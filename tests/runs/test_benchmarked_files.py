"""Files that `kdkit benchmark` compares, and their outputs."""

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


def test_speed_ups_are_of_files_that_do_the_same_work(
    tmp_path, monkeypatch, capsys
):
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
    assert main(["benchmark", *map(str, files)]) == 0
    lines = map(str.split, capsys.readouterr().out.splitlines())
    speed_ups = {
        cells[0]: cells[3]
        for cells in lines
        if cells and cells[0].endswith(".tflite")
    }
    assert speed_ups == {
        "0.tflite": "1.0×",
        "1.tflite": "1.0×",
        "2.tflite": "3.0×",
        "3.tflite": "1.0×",
    }
