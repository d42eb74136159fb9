"""Measures LiteRT files on an Android phone, with adb and `benchmark_model`.

`benchmark_model` is TensorFlow's own program, which the user downloads for the
phone's processor. It reads the inputs from files, because its random numbers
would exceed the rows of small embedding tables.
"""

import pathlib
import re
import shlex
import tempfile
from collections.abc import Sequence

import numpy as np

from kdkit.errors import UsageError
from kdkit.export.exporters import open_file
from kdkit.export.inputs import ENCODER, ENCODER_DECODER, TENSORS
from kdkit.export.latency import (
    full_rows,
    latency_report,
    lengths_of,
)
from kdkit.exported import LatencyReport
from kdkit.io.adb import Device, adb, call_adb

REMOTE = "/data/local/tmp/kdkit-benchmark"  # a folder that programs may run in
NUMBER = r"[-+.\deE]+"
STATISTIC = re.compile(rf"(\w+)=({NUMBER})")
INIT = re.compile(rf"Inference timings in us: Init: ({NUMBER})")
PEAK = re.compile(
    rf"Overall peak memory footprint \(MB\) via periodic monitoring: ({NUMBER})"
)


def measure_on_device(
    paths: Sequence[str | pathlib.Path],
    device: Device,
    benchmark_model: str | pathlib.Path,
    sequence_length: int | None = None,
    batch_size: int = 1,
    threads: int = 1,
    warmup: int = 10,
    runs: int = 50,
    delegate: str | None = None,
) -> list[LatencyReport]:
    """Times LiteRT files on a phone with TensorFlow's `benchmark_model`.

    The program and one file at a time are copied to the phone and removed
    afterwards.

    Args:
        paths: list of strings or paths. `.tflite` files of classifiers,
            encoders or decoders.
        device: `Device`, from `find_device`.
        benchmark_model: string or path. The program, built for the phone.
        sequence_length: as in `kdkit.export.measure_latencies`.
        batch_size: as in `kdkit.export.measure_latencies`.
        threads: as in `kdkit.export.measure_latencies`.
        warmup: as in `kdkit.export.measure_latencies`, but at least 1.
        runs: as in `kdkit.export.measure_latencies`.
        delegate: string or `None`. `"xnnpack"` or `"none"`. Defaults to
            `None`, the program's own choice.

    Returns:
        A list of `LatencyReport`s with `device` and `android`.

    Raises:
        UsageError: (a `ValueError`) as in `kdkit.export.measure_latencies`, or
            for the file of an encoder-decoder.
        RunError: (a `RuntimeError`) if adb or the program fails.
    """
    models = [_open(path) for path in paths]
    lengths = lengths_of(models, sequence_length, batch_size)
    flags = [
        f"--num_threads={threads}",
        f"--num_runs={runs}",
        f"--warmup_runs={max(warmup, 1)}",
        "--min_secs=0",
        "--warmup_min_secs=0",
        "--report_peak_memory_footprint=true",
    ]
    if delegate is not None:
        flags.append(f"--use_xnnpack={str(delegate == 'xnnpack').lower()}")
    phone = ("-s", device.serial)
    program = f"{REMOTE}/benchmark_model"
    reports = []
    try:
        adb(*phone, "shell", f"mkdir -p {REMOTE}")
        adb(*phone, "push", str(benchmark_model), program)
        adb(*phone, "shell", f"chmod 755 {program}")
        for model, length in zip(models, lengths, strict=True):
            adb(*phone, "push", str(model.path), f"{REMOTE}/model.tflite")
            given = _push_inputs(phone, model, batch_size, length)
            words = [program, f"--graph={REMOTE}/model.tflite", *flags, *given]
            printed = adb(*phone, "shell", shlex.join(words))
            reports.append(
                latency_report(
                    model,
                    batch_size,
                    threads=threads,
                    sequence_length=length,
                    warmup=max(warmup, 1),
                    delegate=delegate,
                    device=device.model,
                    android=device.android,
                    **parse_measurement(printed),
                )
            )
    finally:
        call_adb(*phone, "shell", f"rm -rf {REMOTE}")
    return reports


def parse_measurement(text: str) -> dict:
    """Returns the numbers in the output of `benchmark_model`."""
    lines = [line for line in text.splitlines() if "count=" in line]
    found = dict(STATISTIC.findall(lines[-1]))
    if "(all same)" in lines[-1] or found["count"] == "1":
        found = {"avg": found["curr"], **found}
        found = {"median": found["avg"], "p95": found["avg"], **found}
    peak = PEAK.search(text)
    return {
        "median_ms": float(found["median"]) / 1000,
        "p95_ms": float(found["p95"]) / 1000,
        "initialization_ms": float(INIT.search(text).group(1)) / 1000,
        "runs": int(found["count"]),
        "peak_memory_mb": float(peak.group(1)) if peak else None,
    }


def _open(path):
    model = open_file(path)
    if model.kind == ENCODER_DECODER:
        raise UsageError(
            f"{path} has two signatures, of which benchmark_model runs one. "
            "Measure it on this machine."
        )
    return model


def _push_inputs(phone, model, batch_size, length):
    """Copies the inputs to the phone; returns the program's flags for them."""
    if model.kind not in (ENCODER, TENSORS):
        return []  # random keys and values have no wrong numbers
    rows = full_rows(model, batch_size, length)
    names, shapes, files = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, tensor) in enumerate(model.tensor_names.items()):
            values = np.ascontiguousarray(rows[name])
            file = pathlib.Path(folder, f"input_{number}.bin")
            file.write_bytes(values.tobytes())
            remote = f"{REMOTE}/{file.name}"
            adb(*phone, "push", str(file), remote)
            names.append(tensor)
            shapes.append(",".join(map(str, values.shape)))
            # The program reads "::" as a colon in a name.
            files.append(f"{tensor.replace(':', '::')}:{remote}")
    return [
        f"--input_layer={','.join(names)}",
        f"--input_layer_shape={':'.join(shapes)}",
        f"--input_layer_value_files={','.join(files)}",
    ]
