"""Prints the metrics of students' files after training and with rounding.

Reads the runs that experiments/quantization.sh makes: students
`TASK_pkd_seedN` with files in fp32, static_int8 and int4, and
`TASK_PRECISION_seedN`, trained further with rounding, whose `student` has a
teacher and whose `control` has none. All metrics are those of files on dev.

    python experiments/quantization_table.py runs/quantization
"""

import argparse
import pathlib
import statistics
import sys

from kdkit.reporting.records import is_run
from kdkit.reporting.records import read_run
from kdkit.runs.events import Evaluation
from kdkit.runs.events import Export
from kdkit.tasks import get_task

PRECISIONS = ("static_int8", "int4")
COLUMNS = ("fp32", "after training", "with rounding, labels", "with a teacher")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="of the runs")
    folder = parser.parse_args().folder
    students = sorted(filter(is_run, folder.glob("*_pkd_seed*")))
    tasks = sorted({path.name.split("_pkd_")[0] for path in students})
    if not tasks:
        parser.error(f"{folder} has no run TASK_pkd_seedN.")
    print(f"| task | metric | file | seeds | {' | '.join(COLUMNS)} |")
    print("| --- " * (len(COLUMNS) + 4) + "|")
    for task in tasks:
        metric = get_task(task).primary_metric
        seeds = [
            path.name.rpartition("seed")[2]
            for path in students
            if path.name.startswith(f"{task}_pkd_")
        ]
        for precision in PRECISIONS:
            rows = [
                row
                for seed in seeds
                if (row := metrics(folder, task, precision, seed, metric))
            ]
            if rows:
                cells = " | ".join(map(cell, zip(*rows, strict=True)))
                print(
                    f"| {task} | {metric} | {precision} | {len(rows)} "
                    f"| {cells} |"
                )
        for event in read_run(folder / f"{task}_teacher").events_of(Evaluation):
            teacher = f"{100 * event.metrics[metric]:.1f}"
        print(
            f"| {task} | {metric} | teacher in Keras |  | {teacher} |  |  |  |"
        )
    return 0


def metrics(folder, task, precision, seed, metric):
    """Returns a student's metrics in percent in the order of `COLUMNS`.

    Args:
        folder: `pathlib.Path` of the runs.
        task, precision, seed, metric: strings.

    Returns:
        List of four floats, or `None` if a run or a file is missing.
    """
    plain = folder / f"{task}_pkd_seed{seed}"
    rounding = folder / f"{task}_{precision}_seed{seed}"
    files = (
        (plain, "student", "fp32"),
        (plain, "student", precision),
        (rounding, "control", precision),
        (rounding, "student", precision),
    )
    found = [of_file(*file, metric) for file in files]
    return None if None in found else found


def of_file(run, arm, precision, metric):
    """Returns a metric of a run's newest file in percent, or `None`."""
    if not is_run(run):
        return None
    found = [
        event.metrics[metric]
        for event in read_run(run).events_of(Export, arm)
        if event.precision == precision and event.metrics
    ]
    return 100 * found[-1] if found else None


def cell(values):
    """Returns the mean of several values, and the smallest and largest."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    mean = statistics.mean(values)
    return f"{mean:.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    sys.exit(main())
