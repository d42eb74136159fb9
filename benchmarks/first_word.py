"""How much CPU time the command line takes until its first word.

    python benchmarks/first_word.py

The median CPU time, user and system, of `import kdkit`, of `kdkit --help` and
of a mistake in the options of each verb, until the process ends; and of two
runs on generated sentences until their first line. TensorFlow alone takes
seconds to import, so that none of these may import it.

The last line is a JSON object. The exit status is 1 where a goal is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

GOALS = {"import": 0.1, "help": 0.5, "verb": 2.0}  # seconds
IMPORT = [sys.executable, "-c", "import kdkit"]
NOTHING = [sys.executable, "-c", ""]  # is subtracted from it
KDKIT = [sys.executable, "-m", "kdkit"]
MISTAKES = {
    "list": ["--nothing"],
    "show": ["nothing"],
    "init": ["nothing"],
    "demo": ["--run-dir", "file"],
    "train-teacher": ["--smoke", "--run-dir", "r", "--set", "nothing=1"],
    "pretrain": ["--smoke", "--run-dir", "r", "--set", "nothing=1"],
    "augment": ["--task", "sst2", "--model", "nothing", "--output", "a.tsv"],
    "cache": [
        *("tinybert", "--task", "sst2", "--teacher", "runs/nothere"),
        *("--cache", "c"),
    ],
    "distill": [
        *("tinybert", "--task", "sst2", "--teacher", "runs/nothere"),
        *("--run-dir", "r"),
    ],
    "doctor": ["tinybert", "--smoke", "--set", "nothing=1"],
    "sweep": ["tinybert", "--smoke", "--run-dir", "r", "--over", "nothing=1"],
    "ablate": ["nothing", "--over", "objectives", "--run-dir", "r"],
    "evaluate": ["nothing"],
    "export": ["nothing"],
    "benchmark": ["nothing.tflite"],
    "generate": ["nothing", "--prompt", "a"],
    "report": ["nothing"],
}
RUNS = {
    "distill --smoke": ["distill", "tinybert", "--smoke", "--run-dir", "r"],
    "train-teacher --smoke": ["train-teacher", "--smoke", "--run-dir", "r"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "file"), "w").close()

        def median(command, stops=False):
            return statistics.median(
                cpu_seconds(command, folder, stops) for _ in range(rounds)
            )

        found = {
            "import": {"import kdkit": median(IMPORT) - median(NOTHING)},
            "help": {"kdkit --help": median([*KDKIT, "--help"])},
            "verb": {
                f"kdkit {verb}": median([*KDKIT, verb, *options])
                for verb, options in MISTAKES.items()
            }
            | {
                f"kdkit {name}, first line": median([*KDKIT, *options], True)
                for name, options in RUNS.items()
            },
        }
    for kind, times in found.items():
        for name, seconds in times.items():
            print(f"{name}: {seconds:.2f} s (goal {GOALS[kind]} s)")
    missed = [
        name
        for kind, times in found.items()
        for name, seconds in times.items()
        if seconds > GOALS[kind]
    ]
    print(
        json.dumps(
            {
                "cpu_seconds": {
                    name: round(seconds, 3)
                    for times in found.values()
                    for name, seconds in times.items()
                },
                "slowest_verb": round(max(found["verb"].values()), 3),
                "goals": GOALS,
                "missed": missed,
            }
        )
    )
    return int(bool(missed))


def cpu_seconds(command, folder, stops=False):
    """The CPU time of a process until it ends, or until its first line."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    process.stdout.readline()
    if stops:
        process.kill()
    process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it is gone
    process.stdout.close()
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
