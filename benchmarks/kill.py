"""Checks that killed and resumed runs end like runs that were never killed.

    python benchmarks/kill.py
    python benchmarks/kill.py --kills 4 --only tinybert pkd

Every recipe of `kdkit list`, one of them also with a cache, augmented copies
and unlabelled rows, `train-teacher` and every kind of pretraining are run on
tiny data, saving after every step: once without interruption, and once as
processes that SIGKILL ends at random moments, each time resumed by the same
command. Then all files are compared byte for byte: weights, logs, settings,
TensorBoard's points, except for times of day, durations, the command line, and
the doctor's findings about memory and disk. One process imports TensorFlow and
forks the runs, before anything is computed.
"""

import argparse
import functools
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from kill_compare import write_differences
from kill_runs import TEACHER, all_runs, tiny_teacher

from kdkit.cli import main as command_line
from kdkit.settings import to_dict

LONGEST = 900  # seconds of a run


def start(work, output):
    """Forks a process that calls a function; returns its number.

    Everything that computes is forked: after TensorFlow has computed something,
    processes forked from its process hang.
    """
    number = os.fork()
    if number:
        return number
    status = 70
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def teacher_run(folder):
    """Yields the run that trains the recipes' teacher, never killed."""
    config, output = folder / f"{TEACHER}.json", folder / f"{TEACHER}.txt"
    config.write_text(json.dumps(to_dict(tiny_teacher())))
    place = str(folder / TEACHER)
    arguments = ["train-teacher", "--config", str(config), "--run-dir", place]
    status, _ = yield (lambda: command_line.main(arguments)), output, None
    if status:
        print(output.read_text())
        raise SystemExit("The teacher failed.")
    return []


def working_folder(place):
    """Returns the working directory of a run."""
    return place.with_name(f"{place.name}, beside")


def killed_runs(name, verb, folder, num_kills, rng):
    """Yields the processes to start, and when to kill them.

    Yields (function, output, seconds or `None`) and receives the status and the
    duration in seconds. Returns the kills, each a dict.
    """
    config = folder / f"{name}.json"

    def command(place):
        arguments = [verb, "--config", str(config), "--run-dir", str(place)]

        def work():
            # Relative paths in settings, such as a cache, belong to this run.
            working_folder(place).mkdir(exist_ok=True)
            os.chdir(working_folder(place))
            return command_line.main(arguments)

        return work

    compared = folder / f"{name}, compared.json"
    whole = folder / f"{name}, whole"
    output = folder / f"{name}.txt"
    status, seconds = yield command(whole), output, None
    if status:
        print(output.read_text())
        raise SystemExit(f"{name} failed.")
    kills, of_run, turn = [], [], 0
    while True:
        place = folder / f"{name}, killed {turn}"
        after = None
        if len(kills) + len(of_run) < num_kills:
            after = rng.uniform(0, seconds)
        status, _ = yield command(place), output, after
        if status == -signal.SIGKILL:
            of_run.append({"run": name, "after_seconds": round(after, 2)})
            continue
        if status and not of_run:  # nothing killed it
            print(output.read_text())
            raise SystemExit(f"{name} failed with status {status}.")
        found = [f"status {status}"]
        if not status:
            compare = functools.partial(
                write_differences, whole, place, compared
            )
            status, _ = yield compare, output, None
            found = [f"comparison: status {status}"]
            if not status:
                found = json.loads(compared.read_text())
        if found and not of_run:
            raise SystemExit(
                f"{name} ends differently without any kill: {'; '.join(found)}."
            )
        for kill in of_run:
            kill["differences"] = found
        if of_run:
            told = "identical" if not found else "; ".join(found)
            print(f"{name}: {len(of_run)} kills, {told}", flush=True)
        kills += of_run
        of_run = []
        if not found:
            shutil.rmtree(place)
            shutil.rmtree(working_folder(place))
        turn += 1
        if len(kills) >= num_kills:
            if not any(kill["differences"] for kill in kills):
                shutil.rmtree(whole)
                shutil.rmtree(working_folder(whole))
            return kills


def run_all(works, jobs):
    """Runs the generators' processes, some at a time; returns all kills."""
    waiting, running, kills = list(works), {}, []

    def begin(work, answer):
        try:
            function, output, after = work.send(answer)
        except StopIteration as stop:
            kills.extend(stop.value)
            return
        began = time.monotonic()
        until = None if after is None else began + after
        running[start(function, output)] = (work, began, until)

    while waiting or running:
        for number, (_, began, _) in running.items():
            if time.monotonic() > began + LONGEST:
                os.kill(number, signal.SIGKILL)
                raise SystemExit(f"A run took more than {LONGEST} s.")
        while waiting and len(running) < jobs:
            begin(waiting.pop(0), None)
        for number, (work, began, until) in list(running.items()):
            if until is not None and time.monotonic() >= until:
                os.kill(number, signal.SIGKILL)
            ended, status = os.waitpid(number, os.WNOHANG)
            if ended:
                del running[number]
                answer = os.waitstatus_to_exitcode(status)
                begin(work, (answer, time.monotonic() - began))
        time.sleep(0.02)
    return kills


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="names of runs")
    parser.add_argument("--keep", help="a folder for the runs that differ")
    options = parser.parse_args()
    # What a run imports, before it is forked.
    importlib.import_module("kdkit.distillation.distiller")
    importlib.import_module("kdkit.runs.runner")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runs = all_runs(folder)
        chosen = options.only or list(runs)
        unknown = sorted(set(chosen) - set(runs))
        if unknown:
            parser.error(f"no such runs: {unknown}. There are: {list(runs)}")
        began = time.monotonic()
        run_all([teacher_run(folder)], 1)
        kills = run_all(
            [
                killed_runs(
                    name,
                    runs[name],
                    folder,
                    options.kills * (place + 1) // len(chosen)
                    - options.kills * place // len(chosen),
                    random.Random(f"{options.seed} {name}"),
                )
                for place, name in enumerate(chosen)
            ],
            options.jobs,
        )
    found = {
        name: [not kill["differences"] for kill in kills if kill["run"] == name]
        for name in chosen
    }
    identical = sum(map(sum, found.values()))
    print(f"{identical} of {len(kills)} killed runs ended identical.")
    print(
        json.dumps(
            {
                "benchmark": "kill",
                "runs": {
                    name: {"kills": len(each), "identical": sum(each)}
                    for name, each in found.items()
                    if each
                },
                "seconds": round(time.monotonic() - began, 1),
                "different": [k for k in kills if k["differences"]],
            }
        )
    )
    return 0 if identical == len(kills) == options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
