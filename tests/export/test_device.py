"""Files measured on a phone, by a fake `adb` that answers as the real one."""

import json
import os
import stat
import sys
import types

import pytest

from kdkit import export
from kdkit.cli.main import main
from kdkit.errors import RunError, UsageError
from kdkit.export import device
from kdkit.io.adb import Device, find_device

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
INFO: STARTING!
INFO: Log parameter values verbosely: [0]
INFO: Graph: [/data/local/tmp/kdkit-benchmark/model.tflite]
INFO: #threads used for CPU inference: [2]
INFO: Loaded model /data/local/tmp/kdkit-benchmark/model.tflite
INFO: Created TensorFlow Lite XNNPACK delegate for CPU.
INFO: The input model file size (MB): 14.5343
INFO: Initialized session in 21.34ms.
INFO: Running benchmark for at least 1 iterations and at least 0 seconds.
INFO: count=5 first=22318 curr=18217 min=17988 max=22318 avg=18400.3 std=812 \
p5=17988 median=18217 p95=22318

INFO: Running benchmark for at least 50 iterations and at least 0 seconds.
INFO: count=50 first=18306 curr=18345 min=18102 max=19714 avg=18412.6 std=141 \
p5=18110 median=18345 p95=1.9e+04

INFO: Inference timings in us: Init: 21340, First inference: 22318, \
Warmup (avg): 18400.3, Inference (avg): 18412.6
INFO: Note: as the benchmark tool itself affects memory footprint, the \
following is only APPROXIMATE to the actual memory footprint of the model.
INFO: Memory footprint delta from the start of the tool (MB): init=20.1 \
overall=30.5
INFO: Overall peak memory footprint (MB) via periodic monitoring: 35.2
"""


@pytest.fixture
def phone(tmp_path, monkeypatch):
    """Puts a fake adb on PATH; returns a function that sets its answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    adb = folder / "adb"
    adb.write_text(FAKE.format(python=sys.executable))
    adb.chmod(adb.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def answers(**plan):
        plan = {"devices": ["A1"], "printed": PRINTED} | plan
        (folder / "plan.json").write_text(json.dumps(plan))

    def calls():
        lines = (folder / "calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    answers()
    answers.calls = calls
    return answers


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "benchmark_model"
    path.write_bytes(b"program")
    return path


def test_a_serial_number_chooses_the_phone(phone):
    phone(devices=["A1", "B2"])
    assert find_device("B2") == Device("B2", "Pixel 8", "15")
    with pytest.raises(RunError, match="more than one device"):
        find_device()


def test_a_file_is_measured_with_its_inputs_and_removed(
    exported, phone, program
):
    file = exported["fp32"].file
    (report,) = export.measure_on_device(
        [file],
        find_device(),
        program,
        sequence_length=12,
        batch_size=2,
        threads=2,
        warmup=5,
        runs=50,
        delegate="none",
    )
    assert (report.median_ms, report.p95_ms, report.runs) == (18.345, 19.0, 50)
    assert (report.device, report.android) == ("Pixel 8", "15")
    other = (report.initialization_ms, report.peak_memory_mb)
    assert other == pytest.approx((21.34, 35.2))
    *_, measured, removed = phone.calls()
    assert removed[-1] == "rm -rf /data/local/tmp/kdkit-benchmark"
    command = measured[-1].split()
    assert {
        "--num_threads=2",
        "--num_runs=50",
        "--warmup_runs=5",
        "--use_xnnpack=false",
        "--input_layer_shape=2,12:2,12:2,12",
    } <= {word.strip("'") for word in command}
    files = next(word for word in command if "value_files" in word)
    assert "serving_default_token_ids::0:/data/local/tmp/" in files


@pytest.mark.parametrize(
    "plan",
    [
        {"push": "adb: error: failed to copy: No space left on device"},
        {"printed": "not executable: 64-bit ELF file", "status": 126},
    ],
    ids=["push", "program"],
)
def test_a_failed_measurement_is_one_line_and_leaves_nothing(
    plan, exported, phone, program
):
    phone(**plan)
    with pytest.raises(RunError) as error:
        export.measure_on_device(
            [exported["fp32"].file], find_device(), program
        )
    assert "\n" not in str(error.value)
    assert phone.calls()[-1][-1].startswith("rm -rf ")


def test_the_verb_prints_the_numbers_of_the_phone(
    exported, phone, program, capsys
):
    file = exported["fixed"].file
    words = ["benchmark", file, "--adb", "--benchmark-model", str(program)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "on Pixel 8 (Android 15)" in printed
    (result,) = json.loads(printed.splitlines()[-1])["results"]
    assert (result["device"], result["median_ms"]) == ("Pixel 8", 18.345)


def test_a_file_of_two_signatures_does_not_run_on_a_phone(monkeypatch):
    opened = types.SimpleNamespace(kind="encoder_decoder")
    monkeypatch.setattr(device, "open_file", lambda path: opened)
    with pytest.raises(UsageError, match="two signatures"):
        export.measure_on_device(["m.tflite"], None, "program")
