"""Prints the metrics of the students of experiments/sentence_encoders.sh.

    python experiments/sentence_encoders_table.py runs/sentence_encoders

Runs NAME_seedN make one row: Spearman's correlation of the teacher, of the
student before training, of the trained student and of the control, times 100,
as the mean over the seeds with the smallest and the largest; the share of the
teacher's that the student has; its parameters; and the size of its int8 file,
where one was exported.
"""

import argparse
import pathlib
import statistics
import sys

from kdkit.reporting.records import is_run
from kdkit.reporting.records import read_run
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import best_of_finished_run
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description
from kdkit.runs.events import Evaluation

METRIC = "spearman"
COLUMNS = (
    "student",
    "seeds",
    "before training",
    "trained",
    "control",
    "of teacher",
    "parameters",
    "int8 file",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="of the runs")
    parser.add_argument("--metric", default=METRIC)
    options = parser.parse_args()
    groups = {}
    for path in sorted(filter(is_run, options.folder.glob("*_seed*"))):
        groups.setdefault(path.name.rpartition("_seed")[0], []).append(path)
    if not groups:
        parser.error(f"{options.folder} has no run NAME_seedN.")
    print(f"| {' | '.join(COLUMNS)} |")
    print("| --- " * len(COLUMNS) + "|")
    for name, paths in groups.items():
        runs = [read_run(path) for path in paths]
        columns = [
            [value for value in values if value is not None]
            for values in zip(
                *(metrics(run, options.metric) for run in runs), strict=True
            )
        ]
        teacher, _, trained, _ = columns
        if not teacher or not trained:
            continue  # without pairs, or not finished
        share = 100 * statistics.mean(trained) / statistics.mean(teacher)
        cells = " | ".join(map(cell, columns[1:]))
        print(
            f"| {name} | {len(trained)} | {cells} | {share:.1f} % | "
            f"{size(runs)} |"
        )
    print(f"\nteacher: {cell(teacher)}")
    return 0


def metrics(run, name):
    """Returns a metric of the teacher, the start, the student, the control.

    Args:
        run: `kdkit.reporting.records.RunRecords`.
        name: string.
    """
    before = [
        event
        for event in run.events_of(Evaluation, "student")
        if event.stage is None
    ]
    best = best_of_finished_run(run)
    found = [
        best_evaluation(run, "teacher"),
        before[0] if before else None,
        best.get("student"),
        best.get("control"),
    ]
    return [
        100 * one.metrics[name] if one and name in one.metrics else None
        for one in found
    ]


def size(runs):
    """Returns the student's parameters and its int8 file, as cells."""
    parameters = model_description(runs[0], "student").parameters
    stored = [
        file.size_bytes
        for run in runs
        for file in exported_files(run, "student")
        if file.precision == "int8"
    ]
    in_file = f"{stored[0] / 1e6:.2f} MB" if stored else "–"
    return f"{parameters / 1e6:.2f} M | {in_file}"


def cell(values):
    """Returns the mean of values, with the smallest and the largest."""
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.2f}"
    if max(values) - min(values) < 0.005:
        return mean
    return f"{mean} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
