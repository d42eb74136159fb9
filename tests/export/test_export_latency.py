import dataclasses
import os
import zipfile

import pytest

from kdkit import export


def test_measure_latency_reports_the_fields_of_a_latency_event(exported):
    file = exported["fp32"].file
    report = export.measure_latency(
        file, sequence_length=12, batch_size=3, threads=2, warmup=1, runs=6
    )
    fields = dataclasses.asdict(report)
    assert 0 < fields.pop("median_ms") <= fields.pop("p95_ms")
    assert fields.pop("parameters") > 0
    assert fields == {
        "file": file,
        "threads": 2,
        "batch_size": 3,
        "sequence_length": 12,
        "warmup": 1,
        "runs": 6,
        "size_bytes": os.path.getsize(file),
        "reads_tokens": False,
        "reads_sources": False,
        "room": None,
        "delegate": None,
        "device": None,
        "android": None,
        "initialization_ms": None,
        "peak_memory_mb": None,
        "end_to_end_ms": None,
        "sentences_per_second": None,
    }


@pytest.mark.large
def test_measure_latency_does_not_guess_parameters(exported, tmp_path):
    path = tmp_path / "foreign.tflite"
    with zipfile.ZipFile(exported["lstm"].file) as archive:
        start = min(entry.header_offset for entry in archive.infolist())
    with open(exported["lstm"].file, "rb") as file:
        path.write_bytes(file.read()[:start])
    report = export.measure_latency(path, sequence_length=4, warmup=0, runs=1)
    assert report.parameters is None


def test_measure_latencies_keeps_the_order_of_the_files(exported):
    files = [exported[name].file for name in ("lstm", "int8", "fixed")]
    reports = export.measure_latencies(
        files, sequence_length=24, warmup=0, runs=7
    )
    assert [report.file for report in reports] == files
    assert {report.runs for report in reports} == {7}


def test_a_file_runs_without_its_delegate(exported):
    report = export.measure_latency(
        exported["fixed"].file, warmup=0, runs=1, delegate="none"
    )
    assert report.delegate == "none"


def test_pipelines_are_timed_in_addition(exported):
    calls = []

    def pipeline(file, batch_size, sequence_length):
        return lambda: calls.append((file.path.name, batch_size))

    file = exported["fixed"].file
    (report,) = export.measure_latencies(
        [file], warmup=1, runs=2, pipelines=[pipeline]
    )
    assert set(calls) == {(os.path.basename(file), 1)}
    assert report.end_to_end_ms is not None
