"""How much faster and smaller an exported TinyBERT-4 is than BERT-base.

    python benchmarks/latency.py
    python benchmarks/latency.py --teacher runs/teacher/exports/*-fp32.tflite \\
        --student runs/tinybert/exports/*.tflite

Without arguments both models have random weights, on which latency does not
depend, and two classes, and their files take 128 tokens. All files are timed
in turns, on one thread, batch 1.

The last line is a JSON object. The exit status is 1 if a student's file misses
a goal for its precision.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from rich.console import Console
from rich.table import Table

from kdkit import export, models
from kdkit.errors import UsageError

TEACHER = "bert_base_en_uncased"
STUDENT = "tinybert_4_layer_en_uncased"
SEQUENCE_LENGTH = 128  # tokens
GOALS = {  # by precision of the student, against the teacher's file
    "fp32": {"speed_up": 12},
    "int8": {"speed_up": 40, "times_smaller": 25},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--teacher", metavar="FILE", help="the teacher in fp32")
    parser.add_argument("--student", metavar="FILE", nargs="+")
    parser.add_argument("--runs", type=int, default=50, help="timed, per file")
    options = parser.parse_args()
    if bool(options.teacher) != bool(options.student):
        parser.error("--teacher and --student go together")
    with tempfile.TemporaryDirectory() as folder:
        if options.teacher:
            files = [options.teacher, *options.student]
        else:
            files = random_models(folder)
        try:
            results = export.measure_latencies(files, runs=options.runs)
        except UsageError as error:
            parser.error(str(error))
        ratios = [ratios_to(results[0], result) for result in results[1:]]
    print_table(results)
    missed = []
    for ratio in ratios:
        for name, goal in GOALS.get(ratio["precision"], {}).items():
            found = f"{ratio['file']}: {name} is {ratio[name]:.1f}"
            print(f"{found}, the goal is {goal}")
            if ratio[name] < goal:
                missed.append(f"{found}, expected {goal}")
    print(
        json.dumps(
            {
                "ratios": ratios,
                "goals": GOALS,
                "missed": missed,
                "results": [
                    {
                        **{
                            name: value
                            for name, value in dataclasses.asdict(
                                result
                            ).items()
                            if value is not None
                        },
                        "file": pathlib.Path(result.file).name,
                    }
                    for result in results
                ],
            }
        )
    )
    return 1 if missed else 0


def random_models(folder):
    """Exports the teacher in fp32 and the student in every precision."""
    teacher = models.student(TEACHER, num_classes=2)
    student = models.student(STUDENT, num_classes=2)
    plan = [("teacher", teacher, "fp32")] + [
        ("student", student, precision) for precision in export.PRECISIONS
    ]
    print(f"teacher: {TEACHER}, student: {STUDENT}, random weights")
    files = []
    for arm, model, precision in plan:
        print(f"Exporting the {arm} in {precision}", flush=True)
        report = export.to_litert(
            model,
            pathlib.Path(folder, f"{arm}-{precision}.tflite"),
            precision=precision,
            sequence_length=SEQUENCE_LENGTH,
        )
        files.append(report.file)
    return files


def ratios_to(teacher, student):
    """Compares a student's measurement with the teacher's."""
    metadata = export.LiteRTModel(student.file).metadata
    return {
        "file": pathlib.Path(student.file).name,
        "precision": metadata and metadata.precision,
        "speed_up": teacher.median_ms / student.median_ms,
        "times_smaller": teacher.size_bytes / student.size_bytes,
    }


def print_table(results):
    """Prints the measurements, the teacher's first."""
    teacher = results[0]
    table = Table(title=f"One thread, batch 1, {teacher.runs} runs in turns")
    table.add_column("file", no_wrap=True)
    columns = ("median ms", "p95 ms", "faster", "MB", "smaller", "M params")
    for column in columns:
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(
            pathlib.Path(result.file).name,
            f"{result.median_ms:.2f}",
            f"{result.p95_ms:.2f}",
            f"{teacher.median_ms / result.median_ms:.1f}×",
            f"{result.size_bytes / 1e6:.2f}",
            f"{teacher.size_bytes / result.size_bytes:.1f}×",
            f"{result.parameters / 1e6:.2f}" if result.parameters else "?",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
