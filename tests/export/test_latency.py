"""Times of files, on this machine and on a phone that a fake `adb` plays."""

import dataclasses
import json
import os
import pathlib
import stat
import sys
import time
import types

import pytest
from kit.adapter import command
from kit.exported import LENGTH

from kdkit import export

NUMBERS = {"threads": 2, "warmup": 1, "runs": 6}


def test_a_report_has_the_fields_of_a_latency_event(written):
    file = written("litert").file
    report = export.measure_latency(
        file, sequence_length=12, batch_size=3, **NUMBERS
    )
    fields = dataclasses.asdict(report)
    assert 0 < fields.pop("median_ms") <= fields.pop("p95_ms")
    assert fields.pop("parameters") > 0
    assert fields.pop("processor").endswith(f", {os.cpu_count()} cores")
    assert {key: value for key, value in fields.items() if value} == {
        "file": file,
        "batch_size": 3,
        "sequence_length": 12,
        "size_bytes": os.path.getsize(file),
        **NUMBERS,
    }


def test_medians_are_of_the_timed_runs(written, monkeypatch):
    """Of a file whose runs advance the clock."""
    now, seconds = [0.0], iter([9, 9, 1, 2, 3, 4, 50, 9, 60])

    def invoke():
        now[0] += next(seconds)

    file = types.SimpleNamespace(
        **{"kind": "encoder", "sequence_length": 8, "batch_size": None},
        **{"path": written.path, "outputs": "sentence_embedding"},
        **{"metadata": None, "input_names": ("token_ids",)},
        **{"set_inputs": lambda batch: None, "invoke": invoke},
    )
    exporter = export.get_exporter("litert")
    monkeypatch.setattr(exporter, "open", lambda path, threads: file)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    report = export.measure_latency("a.tflite", batch_size=7, warmup=1, runs=6)
    assert report.median_ms == 3500  # of 1, 2, 3, 4, 50 and 60
    assert report.sentences_per_second == 2
    assert report.p95_ms == pytest.approx(57_500)
    assert report.parameters is None  # of a file that kdkit did not write


@pytest.mark.parametrize(
    ("sizes", "length"), [((None, None, 3), 128), ((4, 4, 3), 1)]
)
def test_pictures_have_the_size_of_the_report(sizes, length, monkeypatch):
    """A file of one size has no length."""
    shapes = []
    file = types.SimpleNamespace(
        **{"kind": "tensors", "sequence_length": None, "batch_size": None},
        **{"path": pathlib.Path(__file__), "sizes": sizes, "metadata": None},
        **{"input_names": ("inputs",), "invoke": lambda: None},
        set_inputs=lambda batch: shapes.append(batch["inputs"].shape),
    )
    exporter = export.get_exporter("litert")
    monkeypatch.setattr(exporter, "open", lambda path, threads: file)
    report = export.measure_latency("a.tflite", warmup=0, runs=1)
    assert report.sequence_length == length
    assert shapes == [(1, *(size or length for size in sizes))]


def test_files_are_timed_in_turns_with_their_pipelines(written):
    """The report of each is at its place; those of any length follow."""
    names = ("litert_bilstm", "litert_int8", "litert_embedder")
    files, calls = [written(name).file for name in names], []

    def pipeline(file, batch_size, sequence_length):
        return lambda: calls.append((str(file.path), batch_size))

    reports = export.measure_latencies(
        files, warmup=0, runs=7, delegate="none", pipelines=[pipeline] * 3
    )
    assert [report.file for report in reports] == files
    assert {(r.runs, r.sequence_length, r.delegate) for r in reports} == {
        (7, LENGTH, "none")
    }
    assert set(calls) == {(file, 1) for file in files}
    assert None not in {report.end_to_end_ms for report in reports}


FAKE = """#!{python} -SE
import json, os, pathlib, shlex, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
with open(here / "calls.jsonl", "a") as file:
    file.write(json.dumps(words) + "\\n")
plan = json.loads((here / "plan.json").read_text())
def end(text, status=0):
    print(text)
    sys.exit(status)
if words == ["get-serialno"]:
    if len(plan["devices"]) > 1:
        end("error: more than one device/emulator", 1)
    end(*plan["devices"])
assert words[0] == "-s" and words[1] in plan["devices"], words
if words[2] == "push":
    if plan.get("push"):
        end(plan["push"], 1)
    assert pathlib.Path(words[3]).is_file()
    end(f"{{words[3]}}: 1 file pushed, 0 skipped. 27.4 MB/s")
shell = shlex.split(words[3])
if shell[0] == "getprop":
    end({{"ro.product.model": "Pixel 8", "ro.build.version.release": "15"}}[
        shell[1]])
if shell[0].endswith("benchmark_model"):
    end(plan["printed"], plan.get("status", 0))
end("")
"""
PRINTED = """\
INFO: count=5 first=22318 curr=18217 min=17988 max=22318 avg=18400.3 std=812 \
p5=17988 median=18217 p95=22318
INFO: count=50 first=18306 curr=18345 min=18102 max=19714 avg=18412.6 std=141 \
p5=18110 median=18345 p95=1.9e+04
INFO: Inference timings in us: Init: 21340, First inference: 22318, \
Warmup (avg): 18400.3, Inference (avg): 18412.6
INFO: Overall peak memory footprint (MB) via periodic monitoring: 35.2
"""


@pytest.fixture
def phone(tmp_path, monkeypatch, written):
    """Measures by the verb, with a fake adb on PATH; returns calls, too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    adb, program = folder / "adb", folder / "benchmark_model"
    adb.write_text(FAKE.format(python=sys.executable))
    adb.chmod(adb.stat().st_mode | stat.S_IEXEC)
    program.write_bytes(b"program")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def measure(*words, **plan):
        plan = {"devices": ["A1"], "printed": PRINTED} | plan
        (folder / "plan.json").write_text(json.dumps(plan))
        file = written("litert").file
        words = ("benchmark", file, *words, "--benchmark-model", program)
        answer = command(words)
        lines = (folder / "calls.jsonl").read_text().splitlines()
        return answer, [json.loads(line) for line in lines]

    return measure


def test_a_file_is_measured_on_a_phone_and_removed(phone):
    words = "--batch-size 2 --threads 2 --runs 50 --warmup 5 --delegate none"
    answer, calls = phone("--sequence-length", "12", *words.split(), "--adb")
    assert answer.status == 0, answer.err
    assert "on Pixel 8 (Android 15)" in answer.out
    (result,) = json.loads(answer.out.splitlines()[-1])["results"]
    assert (result["median_ms"], result["p95_ms"]) == (18.345, 19.0)
    assert (result["device"], result["android"]) == ("Pixel 8", "15")
    other = (result["initialization_ms"], result["peak_memory_mb"])
    assert other == pytest.approx((21.34, 35.2))
    *_, measured, removed = calls
    assert removed[-1] == "rm -rf /data/local/tmp/kdkit-benchmark"
    flags = measured[-1].split()
    assert {
        "--num_threads=2",
        "--num_runs=50",
        "--warmup_runs=5",
        "--use_xnnpack=false",
        "--input_layer_shape=2,12:2,12:2,12",
    } <= {flag.strip("'") for flag in flags}
    files = next(flag for flag in flags if "value_files" in flag)
    assert "serving_default_token_ids::0:/data/local/tmp/" in files


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"push": "adb: error: failed to copy: No space left"}, "No space"),
        ({"printed": "not executable: 64-bit ELF", "status": 126}, "64-bit"),
        ({"devices": ["A1", "B2"]}, "more than one device"),
    ],
    ids=["push", "program", "phones"],
)
def test_a_failed_measurement_is_one_line_and_leaves_nothing(
    plan, words, phone
):
    answer, calls = phone("--adb", **plan)
    assert (answer.status, answer.err.strip().count("\n")) == (1, 0)
    assert words in answer.err
    assert calls[-1][-1].startswith("rm -rf ") or "devices" in plan


def test_a_serial_number_chooses_the_phone(phone):
    answer, calls = phone("--adb", "B2", devices=["A1", "B2"])
    assert answer.status == 0, answer.err
    assert {call[1] for call in calls} == {"B2"}


def test_a_file_of_two_signatures_does_not_run_on_a_phone(monkeypatch):
    opened = types.SimpleNamespace(kind="encoder_decoder")
    exporter = export.get_exporter("litert")
    monkeypatch.setattr(exporter, "open", lambda *_: opened)
    with pytest.raises(ValueError, match="two signatures"):
        export.measure_on_device(["m.tflite"], None, "program")
