"""Students of copied layers on small tables: docs/measured/small_tables.md.

python experiments/small_tables.py GLUE ENCODER RUNS SEEDS [NAME...]

GLUE holds SST-2/ and MRPC/, ENCODER is a pretrained encoder, RUNS a folder for
the runs, SEEDS their number; finished runs are not repeated. Prints a row for
each NAME, as sst2000_copied: a table and its students' head.
"""

import csv
import json
import pathlib
import statistics
import subprocess
import sys

TABLES = {"sst1000": 1000, "sst2000": 2000, "sst5000": 5000, "mrpc": 3668}
# Only the run records the encoder, whose layers have no head yet.
PLACES = {"copied": "teacher", "new": "."}


def read(file):
    with open(file, encoding="utf-8-sig", newline="") as lines:
        return [*csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


def write(file, rows):
    with open(file, "w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([["text", "label"], *rows])


def phrases(glue, folder):
    """Writes phrases of SST-2: to train on, to measure on, without labels."""
    rows = [[text.strip(), label] for text, label in read(glue / "train.tsv")]
    for name, count in TABLES.items():
        if name.startswith("sst"):
            write(folder / f"{name}.csv", rows[:count])
    seen = {text for text, _ in rows[:5000]}
    others = [row for row in rows[60000:64000] if row[0] not in seen]
    write(folder / "phrases.csv", others[:2000])
    dev = [[text.strip(), label] for text, label in read(glue / "dev.tsv")]
    write(folder / "dev.csv", dev)
    seen = {text for text, _ in [*rows[:2000], *others[:2000], *dev]}
    long = (text for text, _ in rows[10000:60000] if len(text.split()) > 3)
    unlabeled = [text for text in dict.fromkeys(long) if text not in seen]
    text = "".join(f"{one}\n" for one in unlabeled[:10000])
    (folder / "unlabeled.txt").write_text(text, "utf-8")


def kdkit(*words):
    command = [sys.executable, "-m", "kdkit", *map(str, words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def measured(run, arm, folder, is_phrases):
    """The accuracies of a run's model on dev and on other phrases."""
    events = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in events]
    *_, end = (one for one in found if one["event"] == "run_finished")
    accuracies = [end["best"][arm]["metrics"]["accuracy"]]
    if is_phrases:
        words = ["--test", folder / "phrases.csv", "--arm", arm]
        last = kdkit("evaluate", run, *words).splitlines()[-1]
        accuracies.append(json.loads(last)["metrics"]["accuracy"])
    return accuracies


def shown(rows):
    """Means over seeds in percent, with their standard deviations."""
    return " / ".join(
        f"{100 * statistics.mean(column):.1f}"
        + (f" ± {100 * statistics.stdev(column):.1f}" if len(rows) > 1 else "")
        for column in zip(*rows, strict=True)
    )


def main(glue, encoder, folder, seeds, names):
    folder.mkdir(parents=True, exist_ok=True)
    phrases(glue / "SST-2", folder)
    print("| table | head | teacher | tinybert | pkd | vanilla_kd | labels |")
    for name in names or [f"{table}_copied" for table in TABLES]:
        table, head = name.split("_")
        is_phrases = table.startswith("sst")
        data = ["--task", "mrpc", "--data-dir", glue]
        if is_phrases:
            data = ["--train", folder / f"{table}.csv", "--dev"]
            data += [folder / "dev.csv", "--text-column", "text"]
            data += ["--label-column", "label"]
        teacher = folder / f"{table}_teacher"
        kdkit("train-teacher", "--model", encoder, *data, "--run-dir", teacher)
        start = {"copied": "teacher", "new": encoder}[head]
        recipes = {
            "tinybert": ["--student", start],
            "pkd": ["--control"],
            "vanilla_kd": [],
        }
        rows = [[], [], [], []]
        for seed in range(seeds):
            runs = [folder / f"{name}_{recipe}_{seed}" for recipe in recipes]
            for run, recipe in zip(runs, recipes, strict=True):
                words = ["--teacher", teacher / PLACES[head], "--num-layers", 3]
                words += [*recipes[recipe], *data, "--seed", seed]
                words += ["--cache", folder / f"{table}_cache"]
                kdkit("distill", recipe, *words, "--run-dir", run)
            arms = [(run, "student") for run in runs]
            arms.append((runs[1], "control"))
            for row, arm in zip(rows, arms, strict=True):
                row.append(measured(*arm, folder, is_phrases))
        of_teacher = measured(teacher, "teacher", folder, is_phrases)
        columns = [table, head, *map(shown, ([of_teacher], *rows))]
        print(f"| {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    folders = map(pathlib.Path, sys.argv[1:4])
    main(*folders, int(sys.argv[4]), sys.argv[5:])
