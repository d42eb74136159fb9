"""Measures the latency of exported files on this machine or on a phone.

Several files are measured in turn in one process, so their ratios are
comparable. RUN means the run's exported files, the fp32 files of its teacher's
run, and the teacher's int8 file from kdkit export. For a decoder, the time is
for one token; for an encoder-decoder, it is for reading and writing one
sentence (25 tokens by default, see --sequence-length). For an embedder, the
sentences per second are printed, too: one after another, or --batch-size in a
call, as --sequence-length tokens each. A SavedModel is measured
if its folder is named. Results for a run's files are logged in the run. The
last line is a JSON object with all results.

--end-to-end also measures from a string to a class, tokenizer included.
--adb measures LiteRT files on an Android phone, with TensorFlow's
benchmark_model.

example:
  kdkit benchmark runs/tinybert
  kdkit benchmark runs/tinybert --adb --benchmark-model benchmark_model
  kdkit benchmark runs/teacher/exports/*.tflite runs/tinybert/exports/*.tflite
"""

import contextlib
import dataclasses
import itertools
import json
import logging
import os
import pathlib
import sys

import numpy as np
from rich.console import Console

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.verb_flags import (
    VerbParser,
    flag,
    length,
    many,
    reject_given,
    require,
    switch,
)
from kdkit.errors import UsageError
from kdkit.io.adb import find_device
from kdkit.reporting.formatting import NONE
from kdkit.reporting.records import is_run, read_run
from kdkit.reporting.results import setting_of
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.events import Latency


def _number(text, default):
    """The details of a flag with a number."""
    return flag(
        f"{text}. Defaults to {default}.",
        type=int,
        default=default,
        metavar="N",
    )


VALUES = {"files": many("exported files, or runs", metavar="FILE|RUN")}
FLAGS = {
    "sequence_length": flag(
        "tokens per sequence, for files that take any length. Defaults to "
        "128, or 25 for an encoder-decoder.",
        type=length,
        metavar="N",
    ),
    "batch_size": _number("sequences per call", 1),
    "threads": _number("CPU threads", 1),
    "runs": _number("timed calls per file", 50),
    "warmup": _number("calls before the timed ones", 5),
    "delegate": flag(
        "run LiteRT files with XNNPACK, the default, or with LiteRT's own "
        "kernels",
        choices=("xnnpack", "none"),
    ),
    "end_to_end": switch(
        "also measure from strings to classes. The strings are from the "
        "run's dev split, or generated if its data is unknown."
    ),
    "tokenizer": flag(
        "a run or preset directory with the tokenizer, for --end-to-end with "
        "files outside of a run",
        metavar="MODEL",
    ),
    "adb": flag(
        "measure on an Android phone that adb finds. With several phones, pass "
        "the serial number of one.",
        nargs="?",
        const="",
        metavar="SERIAL",
    ),
    "benchmark_model": flag(
        "TensorFlow's program of this name, built for the phone, for --adb",
        metavar="FILE",
    ),
}


def run(words):
    """Measures files and prints their latencies."""
    parser = VerbParser("benchmark", __doc__, VALUES, {"measurement": FLAGS})
    options = parser.parse_args(words)
    if options.adb is None:
        reject_given(options, ("benchmark_model",), "without --adb")
    else:
        require(options, "benchmark_model")
        reject_given(options, ("end_to_end", "tokenizer"), "with --adb")
    load_tensorflow()

    from kdkit import export
    from kdkit.cli.places import locate
    from kdkit.reporting.cards import CARD, write_card

    # A run may also have files that these options do not measure.
    only = options.delegate or options.adb is not None
    exporters = [
        exporter
        for exporter in _timed_exporters()
        if exporter.name == "litert" or not only
    ]
    files = [file for name in options.files for file in _files(name, exporters)]
    files = list(dict.fromkeys(files))
    places = [locate(str(file)) for file in files]
    phone = None
    if options.adb is not None:
        phone = find_device(options.adb or None)
    for file in files:
        exporter = export.exporter_of(file)
        if exporter and not exporter.takes_threads and phone is None:
            # Before a tokenizer runs TensorFlow.
            exporter.limit_threads(options.threads)
    if options.end_to_end:
        # A tokenizer runs TensorFlow, too; a notebook's threads are its own.
        with contextlib.suppress(UsageError):
            export.get_exporter("saved_model").limit_threads(options.threads)
    names = ("sequence_length", "batch_size", "threads", "warmup", "runs")
    settings = {name: getattr(options, name) for name in names}
    if options.delegate is not None:
        settings["delegate"] = options.delegate
    if phone is not None:
        reports = export.measure_on_device(
            files, phone, options.benchmark_model, **settings
        )
    else:
        if options.end_to_end:
            settings["pipelines"] = [
                _pipeline(place, options.tokenizer) for place in places
            ]
        reports = export.measure_latencies(files, **settings)
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
    cards = {}
    for file, place, report in zip(files, places, reports, strict=True):
        if place.run is not None:
            fields = dataclasses.asdict(report)
            fields["file"] = os.path.relpath(file.resolve(), place.run.path)
            is_logged = place.run.note(Latency(**fields))
            has_card = place.arm != "control" and (file.parent / CARD).is_file()
            if is_logged and has_card:
                cards[file.parent] = place
    for folder, place in cards.items():  # with the latency of all files
        write_card(folder, read_run(place.run.path), place.arm)
    results = [
        {
            name: value
            for name, value in dataclasses.asdict(report).items()
            if value is not None or name == "parameters"
        }
        for report in reports
    ]
    print(json.dumps({"results": results}))


TEXT = 512  # tokens per text, as in LightPAFF's table 4
# Texts for --end-to-end: different ones, so that no cache helps.
NUM_TEXTS = 64
NUM_WORDS = 16  # in a generated text; SST-2's dev split has 19 on average
SEED = 0

_log = logging.getLogger(__name__)


def _files(name, exporters):
    """A file, or the files of a run and its teacher that a report compares."""
    path = pathlib.Path(name)
    if not is_run(path):
        return [path]
    files = _timed_files(path / "exports", "*", exporters)
    teacher = read_run(path).teacher_run
    if teacher is not None:
        files += _timed_files(teacher.run_dir / "exports", "*-fp32", exporters)
    return files + _timed_files(path / "exports" / "teacher", "*", exporters)


def _timed_exporters():
    from kdkit import export

    return [e for e in export.all_exporters() if e.takes_threads]


def _timed_files(folder, stem, exporters):
    """The exported files in a folder, sorted by format."""
    return [
        file
        for exporter in exporters
        for file in sorted(folder.glob(f"{stem}{exporter.suffix}"))
    ]


def _table(reports):
    slowest = {}  # among files with the same work
    for report in reports:
        work = _work(report)
        slowest[work] = max(report.median_ms, slowest.get(work, 0.0))
    shown = [
        {
            "median ms": f"{report.median_ms:.2f}",
            "p95 ms": f"{report.p95_ms:.2f}",
            "speed-up": f"{slowest[_work(report)] / report.median_ms:.1f}×",
            "length": setting_of(report)[2].removeprefix("length "),
            "MB": f"{report.size_bytes / 1e6:.2f}",
            "end to end ms": _cell(report.end_to_end_ms, ".2f"),
            "sentences / s": _cell(report.sentences_per_second, ",.0f"),
            # Every token costs the same step.
            f"{TEXT} tokens, s": _cell(
                TEXT * report.median_ms / 1000 if report.reads_tokens else None,
                ".2f",
            ),
        }
        for report in reports
    ]
    columns = [
        name for name in shown[0] if any(one[name] != NONE for one in shown)
    ]
    first = reports[0]
    return Table(
        "file",
        tuple(map(Column, columns)),
        tuple(
            Row(report.file, tuple(one[name] for name in columns))
            for report, one in zip(reports, shown, strict=True)
        ),
        title=f"{', '.join(setting_of(first)[:2])}, "
        f"{first.warmup} + {first.runs} runs",
    )


def _cell(value, form):
    return NONE if value is None else f"{value:{form}}"


def _work(report):
    """The work of a timed call: its settings, and one sequence or one token."""
    return setting_of(report), report.reads_tokens


def _pipeline(place, tokenizer):
    """A pipeline for `kdkit.export.measure_latencies`."""
    from kdkit.cli.opened import file_tokenizer

    loaded = file_tokenizer(place, tokenizer)
    texts, encode = _texts(place, loaded)

    def make(file, batch_size, sequence_length):
        starts = itertools.cycle(range(0, len(texts), batch_size))

        def classify():
            first = next(starts)
            rows = (first + np.arange(batch_size)) % len(texts)
            encoded = encode(texts.take(rows), loaded, sequence_length)
            batch = encoded.inputs(np.arange(batch_size), sequence_length)
            return file(batch).argmax(axis=-1)

        return classify

    return make


def _texts(place, tokenizer):
    """Texts of the run's dev split, or generated ones, and `encode`."""
    from kdkit import data
    from kdkit.cli.places import task_of

    if place.task_data is not None:
        with contextlib.suppress(OSError, UsageError):  # missing files
            task, data_dir = task_of(place.task_data)
            texts = task.load("dev", data_dir)
            chosen = range(min(NUM_TEXTS, len(texts)))
            return texts.take(chosen), task.encode
    _log.info(
        f"Generated texts of {NUM_WORDS} words for {place.path}: its data is "
        "unknown or missing."
    )
    rng = np.random.default_rng(SEED)
    ids = rng.integers(tokenizer.vocabulary_size(), size=NUM_TEXTS * NUM_WORDS)
    words = [str(tokenizer.id_to_token(int(number))) for number in ids]
    texts = [" ".join(words[at::NUM_TEXTS]) for at in range(NUM_TEXTS)]
    return data.Examples((texts,)), data.encode
