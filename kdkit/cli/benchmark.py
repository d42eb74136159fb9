"""Measures the latency of LiteRT and ONNX files on this machine.

Several files are measured in turn in one process, so their ratios are
comparable. RUN means the run's exported files, the fp32 files of its teacher's
run, and the teacher's int8 file from kdkit export. For a decoder, the time is
for one token; for an encoder-decoder, it is for reading and writing one
sentence (25 tokens by default, see --sequence-length). Results for a run's
files are logged in the run. The last line is a JSON object with all results.

example:
  kdkit benchmark runs/tinybert
  kdkit benchmark runs/teacher/exports/*.tflite runs/tinybert/exports/*.tflite
"""

import dataclasses
import json
import os
import pathlib
import sys

from rich.console import Console

from kdkit import export
from kdkit.cli.groups import Length
from kdkit.cli.models import locate
from kdkit.cli.parser import File
from kdkit.cli.parser import option
from kdkit.errors import UsageError
from kdkit.reporting.cards import CARD
from kdkit.reporting.cards import write_card
from kdkit.reporting.records import is_run
from kdkit.reporting.records import read_run
from kdkit.reporting.selection import Setting
from kdkit.reporting.tables import Column
from kdkit.reporting.tables import Row
from kdkit.reporting.tables import Table
from kdkit.runs.events import Latency


@dataclasses.dataclass
class Options:
    """measurement"""

    files: list[File] = option(
        "exported files, or runs",
        default=[],
        positional=True,
        required=True,
        metavar="FILE|RUN",
    )
    sequence_length: Length | None = option(
        "tokens per sequence, for files that take any length. Defaults to "
        "128, or 25 for an encoder-decoder."
    )
    batch_size: int = option("sequences per call. Defaults to 1.", default=1)
    threads: int = option("CPU threads. Defaults to 1.", default=1)
    runs: int = option("timed calls per file. Defaults to 50.", default=50)
    warmup: int = option(
        "calls before the timed ones. Defaults to 5.", default=5
    )


def run(options):
    benchmark_files(options)


JSON_FIELDS = (
    "file",
    "median_ms",
    "p95_ms",
    "threads",
    "batch_size",
    "sequence_length",
    "size_bytes",
    "parameters",
)
TEXT = 512  # tokens per text, as in LightPAFF's table 4


def benchmark_files(options) -> None:
    """Measures files in turn, and then prints one line of JSON.

    Args:
        options: the parsed options of `kdkit benchmark`.

    Raises:
        UsageError: if a file is missing or not an exported file, if the shape
            does not fit it, or if a run has no files.
    """
    files = [file for name in options.files for file in _files(name)]
    files = list(dict.fromkeys(files))
    wrong = [
        str(file)
        for file in files
        if export.exporter_of(file) not in _timed_exporters()
    ]
    if wrong:
        suffixes = " or ".join(e.suffix for e in _timed_exporters())
        raise UsageError(
            f"Expected {suffixes} files, or runs. Received: "
            f"{', '.join(wrong)}. Make files with kdkit export MODEL."
        )
    places = [locate(str(file)) for file in files]
    reports = export.measure_latencies(
        files,
        sequence_length=options.sequence_length,
        batch_size=options.batch_size,
        threads=options.threads,
        warmup=options.warmup,
        runs=options.runs,
    )
    Console().print(_table(reports).terminal())
    rooms = sorted({report.room for report in reports if report.room})
    if len(rooms) > 1:
        print(
            "These files have different context lengths of source and "
            f"target, {', '.join(map(str, rooms))}, and always compute with "
            "all of it. To compare them, export them with the same "
            "--sequence-length.",
            file=sys.stderr,
        )
    for file, place, report in zip(files, places, reports, strict=True):
        if place.run is not None:
            fields = dataclasses.asdict(report)
            fields["file"] = os.path.relpath(file.resolve(), place.run.path)
            place.run.log(Latency(**fields))
    for file, place in zip(files, places, strict=True):
        if place.run is not None and (file.parent / CARD).is_file():
            write_card(file.parent, read_run(place.run.path), place.arm)
    print(
        json.dumps(
            {
                "results": [
                    {field: getattr(report, field) for field in JSON_FIELDS}
                    for report in reports
                ]
            }
        )
    )


def _files(name):
    """A file, or the files of a run and its teacher that a report compares."""
    path = pathlib.Path(name)
    if not is_run(path):
        return [path]
    files = _timed_files(path / "exports", "*")
    if not files:
        suffixes = " or ".join(e.suffix for e in _timed_exporters())
        raise UsageError(
            f"The run in {path} has no exported {suffixes} files. Make them "
            f"with kdkit export {path}."
        )
    teacher = read_run(path).teacher_run
    if teacher is not None:
        files += _timed_files(teacher.run_dir / "exports", "*-fp32")
    return files + _timed_files(path / "exports" / "teacher", "*")


def _timed_exporters():
    return [e for e in export.all_exporters() if e.takes_threads]


def _timed_files(folder, stem):
    """The exported files in a folder, sorted by format."""
    return [
        file
        for exporter in _timed_exporters()
        for file in sorted(folder.glob(f"{stem}{exporter.suffix}"))
    ]


def _table(reports):
    first = reports[0]
    columns = ["median ms", "p95 ms", "speed-up", "length", "MB"]
    decoders = any(report.reads_tokens for report in reports)
    if decoders:
        columns.append(f"{TEXT} tokens, s")
    rows = []
    slowest = {}  # among files with the same work
    for report in reports:
        work = _work(report)
        slowest[work] = max(report.median_ms, slowest.get(work, 0.0))
    for report in reports:
        cells = [
            f"{report.median_ms:.2f}",
            f"{report.p95_ms:.2f}",
            f"{slowest[_work(report)] / report.median_ms:.1f}×",
            Setting.of(report).length,
            f"{report.size_bytes / 1e6:.2f}",
        ]
        if decoders:  # every token costs the same step
            seconds = TEXT * report.median_ms / 1000
            cells.append(f"{seconds:.2f}" if report.reads_tokens else "–")
        rows.append(Row(report.file, tuple(cells)))
    return Table(
        "file",
        tuple(map(Column, columns)),
        tuple(rows),
        title=f"{first.threads} thread(s), batch {first.batch_size}, "
        f"{first.warmup} + {first.runs} runs",
    )


def _work(report):
    """The work of a timed call: its settings, and one sequence or one token."""
    return Setting.of(report), report.reads_tokens
